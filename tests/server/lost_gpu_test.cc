// A failing GPU loses its session, but not the server.
#include <gtest/gtest.h>

#include <future>

#include "math/cuda/emulation.h"
#include "server/batching/batcher.h"
#include "server/model/executable.h"
#include "server/request_error.h"
#include "support/gpu.h"
#include "support/serving_nets.h"

namespace crema::test {
namespace {

using namespace server;

// On the emulated GPU: each session has its own device, the first of which fails.
class BreakingDevices {
 public:
  explicit BreakingDevices(QueueTrace first) : first_(std::move(first)) {
    first_.entries.reserve(1000);
  }

  ComputeDevice Device() {
    return {.device = {DeviceType::kCuda, 0}, .gpu_context = [this](uint64_t seed) {
              return ++made_ == 1 ? EmulatedGpuContext(&first_, seed) : EmulatedGpuContext(seed);
            }};
  }
  int made() const { return made_; }
  size_t asked() const { return first_.entries.size(); }

 private:
  QueueTrace first_;
  int made_ = 0;
};

std::shared_ptr<const Model> ModelOn(ComputeDevice device) {
  return Model::Make(ParseNet(kSmallNet, "net.prototxt"), {}, {}, {.device = std::move(device)},
                     LayersOfStandIn(), NullSink());
}

InferOutcome AskBatcher(Batcher* batcher, const Tensor& data) {
  InferRequest request;
  InputTensor input;
  input.name = "data";
  input.shape = data.shape();
  input.values = ValuesOf(data.view());
  request.inputs.push_back(std::move(input));
  std::promise<InferOutcome> answered;
  batcher->Submit(std::move(request), data.shape()[0],
                  [&](InferOutcome outcome) { answered.set_value(std::move(outcome)); });
  return answered.get_future().get();
}

TEST(LostGpu, FailsItsRequestAndTheNextGetsAnotherSession) {
  const Tensor data = Drawn({1, 3, 12, 12}, 5);
  ModelRunner runner(ModelOf(kSmallNet));
  const std::vector<float> expected = Answer(&runner, data);
  // With graphs the second pass is captured, and later ones launch nothing by name.
  for (const bool graphs : {true, false}) {
    const int64_t whole = graphs ? 1 : 3;
    BreakingDevices devices(
        {.no_graphs = !graphs, .broken_kernel = "SoftmaxForward", .whole_launches = whole});
    Batcher batcher(ToExecutable(ModelOn(devices.Device())), {.max_batch = 1});
    for (int64_t i = 1; i < whole; ++i) {
      EXPECT_FALSE(AskBatcher(&batcher, data).failure);  // 1: warming
    }

    const InferOutcome lost = AskBatcher(&batcher, data);
    ASSERT_TRUE(lost.failure);
    EXPECT_EQ(lost.failure->cause(), Cause::kInternal);
    EXPECT_NE(lost.failure->detail().find("the stand-in is broken"), std::string::npos)
        << lost.failure->detail();
    EXPECT_EQ(devices.made(), 1);
    const size_t asked = devices.asked();

    for (int again = 0; again < 3; ++again) {
      const InferOutcome outcome = AskBatcher(&batcher, data);
      ASSERT_FALSE(outcome.failure) << outcome.failure->what();
      ASSERT_EQ(outcome.outputs.size(), 1U);
      ASSERT_EQ(outcome.outputs[0].values.size(), expected.size());
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_NEAR(outcome.outputs[0].values[i], expected[i], 1e-5);  // sums go in another order
      }
    }
    EXPECT_EQ(devices.made(), 2);
    EXPECT_EQ(devices.asked(), asked);  // the broken device is not called
  }
}

}  // namespace
}  // namespace crema::test
