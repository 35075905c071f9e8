// The implementation that lets the CPU compute layers of a net on a GPU does what native methods
// do.
#include "plan/host_implementation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "runtime/session.h"
#include "support/gpu.h"
#include "support/layer_case.h"
#include "support/layer_run.h"
#include "support/net.h"

namespace crema::test {
namespace {

// Returns true if there was something to compare.
bool ExpectSameBits(const LayerType& type, const LayerSample& sample, bool backward) {
  const LayerCase layer_case(type, sample, DType::kF32);
  const LayerInfo& info = layer_case.info();
  if (info.view || info.share || layer_case.infer_context().inputs.empty()) return false;
  const CaseValues values = DrawValues(layer_case);
  const RunResult expected = RunLayer(layer_case, values, {.backward = backward});
  const RunResult got =
      RunLayer(layer_case, values, {.backward = backward, .implementation = &HostImplementation()});
  const std::string what = StrCat(type.name, ", ", sample.name);
  EXPECT_EQ(got.failures, std::vector<std::string>()) << what;
  EXPECT_EQ(got.outputs, expected.outputs) << what;
  EXPECT_EQ(got.input_grads, expected.input_grads) << what;
  EXPECT_EQ(got.parameter_grads, expected.parameter_grads) << what;
  return true;
}

TEST(HostImplementation, ComputesTheSameBits) {
  int compared = 0;
  for (const std::string& name : LayersWithGpuImplementations().Names()) {
    const LayerType& type = *LayersWithGpuImplementations().Find(name);
    for (const LayerSample& sample : type.samples) {
      const bool backward = sample.gradient && sample.phase == TRAIN;
      if (ExpectSameBits(type, sample, backward)) ++compared;
    }
  }
  EXPECT_GT(compared, 300);
}

constexpr const char* kFilterNet = R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 3 dim: 4 } } }
layer { name: "s" type: "Input" top: "s" input_param { shape { dim: 3 } } }
layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip"
  inner_product_param { num_output: 2 weight_filler { type: "xavier" } } }
layer { name: "some" type: "FilterOfTheCpu" bottom: "ip" bottom: "s" top: "some" }
layer { name: "relu" type: "ReLU" bottom: "some" top: "y" }
)";

std::shared_ptr<const Plan> PlanForGpu(bool allow_cpu_layers) {
  const NetFile file = ParseNet(kFilterNet, "net.prototxt");
  NetState state;
  state.set_phase(TEST);
  std::vector<Problem> warnings;
  return MakePlan(file.net, file.source, state, LayersOfStandIn(),
                  {.device = {DeviceType::kCuda, 0}, .allow_cpu_layers = allow_cpu_layers},
                  &warnings);
}

// Its output shape is known only at run time; later layers are on the GPU again.
TEST(HostImplementation, LayersMayReportTheirShapes) {
  const auto plan = PlanForGpu(true);
  Session session(plan, Weights::Make(*plan, 3), GpuContext(3));
  std::vector<float> x(12);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) - 5;
  const std::vector<float> selected{1, 0, 1};
  session.Write(session.MutableData("x"), x.data());
  session.Write(session.MutableData("s"), selected.data());
  session.Forward();
  EXPECT_EQ(session.Data("y").shape(), Shape({2, 2}));
  const HostView all(session, session.Data("ip"));
  const HostView chosen(session, session.Data("y"));
  for (int64_t i = 0; i < 4; ++i) {
    const float from = all->data<float>()[i < 2 ? i : i + 2];
    EXPECT_EQ(chosen->data<float>()[i], std::max(0.0F, from)) << i;
  }
}

TEST(HostImplementation, IsNotTakenUnlessAllowed) {
  try {
    PlanForGpu(false);
    FAIL() << "was planned";
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("--allow_cpu_layers"), std::string::npos) << message;
    EXPECT_NE(message.find("FilterOfTheCpu"), std::string::npos) << message;
    EXPECT_NE(message.find("no implementation for cuda:0"), std::string::npos) << message;
    EXPECT_NE(message.find("net.prototxt:6"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace crema::test
