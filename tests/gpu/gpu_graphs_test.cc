// Sessions that capture passes as graphs: when they do, why not, and changes of shapes.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "format/prototxt.h"
#include "math/cuda/emulation.h"
#include "runtime/captured_graph.h"
#include "runtime/profiler.h"
#include "runtime/session.h"
#include "support/gpu.h"
#include "support/net.h"

namespace crema {
namespace {

constexpr const char* kGraphNet = R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 6 } } }
layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip"
  inner_product_param { num_output: 5 weight_filler { type: "xavier" } } }
layer { name: "drop" type: "Dropout" bottom: "ip" top: "drop" }
layer { name: "loss" type: "Reduction" bottom: "drop" top: "loss" loss_weight: 1
  reduction_param { operation: SUMSQ } }
)";

std::shared_ptr<const Plan> PlanOf(const std::string& net) {
  const NetFile file = ParseNet(net, "net.prototxt");
  NetState state;
  state.set_phase(TRAIN);
  std::vector<Problem> warnings;
  return MakePlan(file.net, file.source, state, test::LayersOfStandIn(),
                  {.device = {DeviceType::kCuda, 0}, .allow_cpu_layers = true}, &warnings);
}

struct GraphNumbers {
  std::vector<double> losses;
  std::vector<std::vector<float>> values;
};

// Passes with batches of such sizes, each on other values.
GraphNumbers RunPasses(QueueTrace* trace, const std::vector<int64_t>& batches) {
  const auto plan = PlanOf(kGraphNet);
  Session session(plan, Weights::Make(*plan, 3), EmulatedGpuContext(trace, 3));
  GraphNumbers numbers;
  for (const int64_t batch : batches) {
    session.Reshape("x", {batch, 6});
    std::vector<float> x(static_cast<size_t>(6 * batch));
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = static_cast<float>(i % 7) - static_cast<float>(numbers.losses.size());
    }
    session.Write(session.MutableData("x"), x.data());
    numbers.losses.push_back(session.Forward());
    session.ZeroParameterGradients();
    session.Backward();
    for (const ConstTensorView& view :
         {session.Data("drop"), ConstTensorView(session.ParameterGradient(0))}) {
      numbers.values.push_back(test::ValuesOf(**std::make_unique<HostView>(session, view)));
    }
  }
  return numbers;
}

TEST(GpuGraphs, SizesMayChange) {
  const std::vector<int64_t> batches = {4, 4, 4, 4, 2, 2, 2, 4, 2, 3, 3, 3};
  QueueTrace anew{.no_graphs = true}, again;
  const GraphNumbers expected = RunPasses(&anew, batches);
  const GraphNumbers numbers = RunPasses(&again, batches);
  EXPECT_EQ(numbers.losses, expected.losses);
  EXPECT_EQ(numbers.values, expected.values);
  EXPECT_NE(expected.losses[0], expected.losses[1]);
  EXPECT_EQ(again.captures, 2 * 3);
  EXPECT_EQ(again.replays, 2 * (3 + 2 + 2));
}

TEST(GpuGraphs, AnotherStepDrawsAnew) {
  const auto plan = PlanOf(kGraphNet);
  QueueTrace trace;
  Session session(plan, Weights::Make(*plan, 3), EmulatedGpuContext(&trace, 3));
  const std::vector<float> x(24, 1);
  session.Write(session.MutableData("x"), x.data());
  std::vector<double> losses;
  for (const uint64_t step : {5, 6, 7, 5, 6, 7, 7}) {
    session.set_step(step);
    losses.push_back(session.Forward());
  }
  EXPECT_NE(losses[0], losses[1]);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(losses[i], losses[i + 3]);
  EXPECT_EQ(losses[6], losses[5]);
  EXPECT_GE(trace.replays, 5);
}

std::string ReasonOf(const std::string& net, QueueTrace* trace) {
  const auto plan = PlanOf(net);
  Session session(plan, Weights::Make(*plan, 3), EmulatedGpuContext(trace, 3));
  for (int pass = 0; pass < 3; ++pass) session.Forward();
  return session.WhyNoGraph();
}

TEST(GpuGraphs, ReasonsAreTold) {
  QueueTrace trace;
  EXPECT_EQ(ReasonOf(kGraphNet, &trace), "");
  EXPECT_GT(trace.replays, 0);
  EXPECT_NE(DescribePlan(*PlanOf(kGraphNet)).find("launched as one"), std::string::npos);
  QueueTrace off{.no_graphs = true};
  EXPECT_NE(ReasonOf(kGraphNet, &off).find("--cuda_graphs=0"), std::string::npos);
  for (const auto& [type, reason] : {std::pair("FilterOfTheCpu", "runs on the CPU"),
                                     std::pair("Filter", "chooses its shape as it runs")}) {
    const std::string filter = StrCat(
        kGraphNet, R"(layer { name: "s" type: "Input" top: "s" input_param { shape { dim: 4 } } }
layer { name: "some" bottom: "x" bottom: "s" top: "some" type: ")",
        type, "\" }");
    const std::string told = StrCat("layer \"some\" ", reason);
    EXPECT_NE(DescribePlan(*PlanOf(filter)).find("CUDA graphs: none, " + told), std::string::npos);
    QueueTrace each;
    EXPECT_EQ(ReasonOf(filter, &each), told);
    EXPECT_EQ(each.captures, 0);
  }
}

TEST(GpuGraphs, WorkThatCannotBeKeptIsQueuedAnew) {
  QueueTrace trace;
  const ExecContext context = EmulatedGpuContext(&trace, 1);
  CapturedGraph work;
  int runs = 0;
  float number = 0;
  const auto body = [&] {
    ++runs;
    context.queue()->Fill(DType::kF32, 1, static_cast<float>(runs), &number);
    float read = 0;
    context.queue()->Download(&read, &number, sizeof(read));
    EXPECT_EQ(read, static_cast<float>(runs));
  };
  for (int i = 0; i < 3; ++i) work.Run(context.queue(), 1, body);
  EXPECT_EQ(runs, 4);  // one of them was to be kept
  EXPECT_FALSE(work.captured());
  EXPECT_NE(work.reason().find("lets the host read"), std::string::npos) << work.reason();
  EXPECT_TRUE(context.queue()->lost().empty());
}

TEST(GpuGraphs, ReplaysUseTheCapturedArguments) {
  const ExecContext context = EmulatedGpuContext(1);
  CapturedGraph work;
  float number = 0, argument = 0;
  for (int i = 0; i < 4; ++i) {
    argument += 1;
    work.Run(context.queue(), 1, [&] { context.queue()->Fill(DType::kF32, 1, argument, &number); });
  }
  EXPECT_EQ(number, 2);
  work.Run(context.queue(), 2, [&] { context.queue()->Fill(DType::kF32, 1, 9, &number); });
  EXPECT_EQ(number, 9);
}

// By events: a pass is not waited for in its middle, and layers are launched by themselves.
TEST(GpuGraphs, ProfilesByEvents) {
  const auto plan = PlanOf(kGraphNet);
  QueueTrace trace;
  Session session(plan, Weights::Make(*plan, 3), EmulatedGpuContext(&trace, 3));
  trace.waits = 0;
  const Profile profile = ProfileSession(&session, {.iterations = 5, .warmup = 1});
  EXPECT_EQ(trace.waits, 1 + 5 * 2);  // the loss while warming up; both ends of an iteration
  EXPECT_EQ(trace.replays, 0);
  EXPECT_EQ(profile.forward.runs.size(), 5U);
  EXPECT_EQ(profile.backward.runs.size(), 5U);
  ASSERT_FALSE(profile.layers.empty());
  for (const LayerProfile& layer : profile.layers) {
    for (size_t i = 0; i < layer.forward.runs.size(); ++i) {
      EXPECT_LE(layer.forward.runs[i].begin, layer.forward.runs[i].end);
      EXPECT_GE(layer.forward.runs[i].begin, profile.forward.runs[i].begin);
      EXPECT_LE(layer.forward.runs[i].end, profile.forward.runs[i].end);
    }
  }
}

}  // namespace
}  // namespace crema
