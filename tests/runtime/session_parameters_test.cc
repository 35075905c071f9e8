#include "runtime/session_parameters.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "math/cuda/emulation.h"
#include "support/net.h"

namespace crema {
namespace {

using test::PlanText;

constexpr const char* kParametersNet = R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 5 } } }
layer { name: "a" type: "InnerProduct" bottom: "x" top: "a" param { name: "w" } param { lr_mult: 0 }
  inner_product_param { num_output: 5 weight_filler { type: "xavier" } } }
layer { name: "b" type: "InnerProduct" bottom: "a" top: "b" param { name: "w" }
  inner_product_param { num_output: 5 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "Reduction" bottom: "b" top: "loss" loss_weight: 1 }
)";

struct Parameters {
  explicit Parameters(ExecContext made, bool updates = true)
      : context(std::move(made)),
        parameters(*plan, context, weights, updates ? weights : nullptr) {}

  std::shared_ptr<const Plan> plan = PlanText(kParametersNet);
  std::shared_ptr<Weights> weights = Weights::Make(*plan, 3);
  ExecContext context;
  SessionParameters parameters;
};

TEST(SessionParameters, AreTheWeightsOnTheCpu) {
  Parameters p(ExecContext(1, 1));
  for (size_t s = 0; s < p.plan->parameters.size(); ++s) {
    EXPECT_EQ(p.parameters.Blob(s).raw(), p.weights->blob(s).raw());
  }
  EXPECT_TRUE(p.parameters.UpdatesStatistics());
  EXPECT_FALSE(Parameters(ExecContext(1, 1), false).parameters.UpdatesStatistics());
}

TEST(SessionParameters, HaveOneGradientForEachSharedBlob) {
  Parameters p(ExecContext(1, 1));
  ASSERT_EQ(p.plan->parameters.size(), 4U);
  EXPECT_EQ(p.parameters.Gradient(0).raw(), p.parameters.Gradient(2).raw());
  EXPECT_TRUE(p.parameters.Gradient(1).empty());  // lr_mult: 0
  EXPECT_EQ(p.parameters.Gradient(3).shape(), (Shape{5}));
}

TEST(SessionParameters, ZeroAllGradients) {
  Parameters p(ExecContext(1, 1));
  const std::span<float> all = p.parameters.GradientMemory();
  ASSERT_GE(all.size(), 30U);
  std::ranges::fill(all, 2.0F);
  EXPECT_EQ(p.parameters.Gradient(3).span<float>()[4], 2);
  p.parameters.ZeroGradients();
  EXPECT_TRUE(std::ranges::all_of(all, [](float g) { return g == 0; }));
}

// The stand-in of a GPU works in memory of the CPU, which is still not that of the weights.
TEST(SessionParameters, AreCopiesOnAGpu) {
  Parameters p(EmulatedGpuContext(3));
  const float before = p.weights->blob(0).span<float>()[0];
  auto* copy = static_cast<float*>(p.parameters.Blob(0).raw());
  EXPECT_EQ(copy[0], before);
  copy[0] = before + 1;
  EXPECT_EQ(p.weights->blob(0).span<float>()[0], before);
  p.parameters.DownloadStatistics();  // there are none
  EXPECT_EQ(p.weights->blob(0).span<float>()[0], before);
  p.parameters.Download();
  EXPECT_EQ(p.weights->blob(0).span<float>()[0], before + 1);
  p.weights->blob(0).span<float>()[0] = 7;
  p.parameters.Upload();
  EXPECT_EQ(copy[0], 7);
}

}  // namespace
}  // namespace crema
