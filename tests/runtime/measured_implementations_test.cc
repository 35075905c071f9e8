// Nets with implementations that only measuring chooses learn as plain nets do.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "core/memory_format.h"
#include "crema.pb.h"
#include "plan/implementation_timer.h"
#include "runtime/implementation_bench.h"
#include "support/net.h"
#include "support/random_nets.h"

namespace crema {
namespace {

using test::ExpectNear;
using test::FillInput;
using test::PlanText;
using test::ValuesOf;

// Runs all implementations, and reports those of this name as the fastest.
class Favouring final : public ImplementationTimer {
 public:
  explicit Favouring(std::string name) : name_(std::move(name)) {}
  std::vector<double> Measure(const std::string& layer, const OpDesc& query,
                              std::span<const Implementation* const> implementations) override {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    EXPECT_EQ(TimeImplementations(query, implementations, deadline, DisturbedRuns::kCount).size(),
              implementations.size())
        << layer;
    std::vector<double> seconds;
    for (const Implementation* implementation : implementations)
      seconds.push_back(implementation->name == name_ ? 1e-6 : 1e-3);
    return seconds;
  }

 private:
  const std::string name_;
};

std::string NetOf(const std::string& field_of_lrn) {
  return R"(
layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 3 dim: 16 dim: 14 dim: 13 } } }
layer { name: 'a' type: 'Convolution' bottom: 'x' top: 'a' convolution_param { num_output: 32
  kernel_size: 3 weight_filler { type: 'xavier' } } }
layer { name: 'n' type: 'LRN' bottom: 'a' top: 'n' )" +
         field_of_lrn + R"( }
layer { name: 'p' type: 'Pooling' bottom: 'n' top: 'p' pooling_param { kernel_size: 3 stride: 2 } }
layer { name: 'b' type: 'Convolution' bottom: 'p' top: 'b' convolution_param { num_output: 16
  kernel_size: 3 weight_filler { type: 'xavier' } } }
layer { name: 'loss' type: 'Reduction' bottom: 'b' top: 'loss' loss_weight: 1
  reduction_param { operation: SUMSQ } }
)";
}

// Loss and gradients of an input as planned, and of a smaller one.
std::vector<std::vector<float>> Learn(const std::shared_ptr<const Plan>& plan) {
  const std::shared_ptr<const Weights> weights = Weights::Make(*plan, 3);
  Session session(plan, weights, ExecContext(plan->options.threads, 3));
  std::vector<std::vector<float>> numbers;
  for (const Shape& shape : {Shape{3, 16, 14, 13}, Shape{2, 16, 9, 10}}) {
    session.Reshape("x", shape);
    FillInput(&session, "x", 1);
    session.ZeroParameterGradients();
    numbers.push_back({static_cast<float>(session.Forward())});
    session.Backward();
    for (size_t s = 0; s < plan->parameters.size(); ++s) {
      numbers.push_back(ValuesOf(session.ParameterGradient(s)));
    }
  }
  return numbers;
}

TEST(MeasuredImplementations, LrnWithTheWorkspaceOfOneDnn) {
  const std::string name = "onednn, workspace";
  const std::vector<ImplementationPtr>& implementations =
      test::TestRegistry().Find("LRN")->implementations;
  if (ChannelBlock() == 0 ||
      std::ranges::find(implementations, name, &Implementation::name) == implementations.end()) {
    GTEST_SKIP() << "this build or processor has no such implementation";
  }
  const auto timer = std::make_shared<Favouring>(name);
  for (const std::string& field : {std::string(), std::string("recompute: true")}) {
    const std::string text = NetOf(field);
    const auto plan = PlanText(text, TRAIN, {.threads = 2, .implementation_timer = timer});
    const auto lrn = std::ranges::find_if(
        plan->layers, [](const PlannedLayer& layer) { return layer.name() == "n"; });
    ASSERT_EQ(lrn->implementation->name, name);
    EXPECT_GE(lrn->info.saved[0].shape.count(), 3 * 32 * 12 * 11);
    ExpectNear(Learn(PlanText(text, TRAIN, {.optimize = false})), Learn(plan), 1e-4, text);
  }
}

}  // namespace
}  // namespace crema
