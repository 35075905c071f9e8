#include <gtest/gtest.h>

#include <algorithm>

#include "support/net.h"

namespace crema {
namespace {

using test::PlanText;

constexpr const char* kHead =
    "layer { name: \"x\" type: \"Input\" top: \"x\" input_param { shape { dim: 2 dim: 3 } } }\n"
    "layer { name: \"t\" type: \"Input\" top: \"t\" input_param { shape { dim: 2 dim: 3 } } }\n";

std::string Ip(const std::string& name, const std::string& bottom, const std::string& extra = "") {
  return "layer { name: \"" + name + "\" type: \"InnerProduct\" bottom: \"" + bottom +
         "\" top: \"" + name + "\" inner_product_param { num_output: 3 } " + extra + "}\n";
}

std::string Loss(const std::string& bottom) {
  return "layer { name: \"loss\" type: \"EuclideanLoss\" bottom: \"" + bottom +
         "\" bottom: \"t\" top: \"loss\" }\n";
}

const PlannedLayer& LayerOf(const Plan& plan, const std::string& name) {
  return *std::ranges::find(plan.layers, name, &PlannedLayer::name);
}

TEST(GradientFlow, StopsAtTheFirstLayerWithTrainedParameters) {
  const auto plan = PlanText(kHead + Ip("a", "x") + Ip("b", "a") + Loss("b"));
  EXPECT_TRUE(LayerOf(*plan, "a").backward);
  EXPECT_FALSE(LayerOf(*plan, "a").to_input[0]);
  EXPECT_TRUE(LayerOf(*plan, "b").to_input[0]);
  EXPECT_FALSE(LayerOf(*plan, "x").backward);
}

TEST(GradientFlow, FrozenFirstLayersGetNoBackwardPass) {
  const std::string frozen = "param { lr_mult: 0 } param { lr_mult: 0 }";
  const auto plan = PlanText(kHead + Ip("a", "x", frozen) + Ip("b", "a") + Loss("b"));
  EXPECT_FALSE(LayerOf(*plan, "a").backward);
  EXPECT_FALSE(LayerOf(*plan, "b").to_input[0]);
  EXPECT_TRUE(LayerOf(*plan, "b").backward);
}

TEST(GradientFlow, PropagateDownFalseCutsEarlierLayers) {
  const auto plan =
      PlanText(kHead + Ip("a", "x") + Ip("b", "a", "propagate_down: false ") + Loss("b"));
  EXPECT_FALSE(LayerOf(*plan, "a").backward);
  EXPECT_FALSE(LayerOf(*plan, "b").to_input[0]);
  EXPECT_TRUE(LayerOf(*plan, "b").to_parameters[0]);
}

TEST(GradientFlow, BranchesWithoutLossRunNoBackward) {
  const auto plan = PlanText(kHead + Ip("a", "x") + Ip("side", "a") + Ip("b", "a") + Loss("b"));
  EXPECT_FALSE(LayerOf(*plan, "side").backward);
  EXPECT_TRUE(LayerOf(*plan, "a").backward);
}

TEST(GradientFlow, ForceBackwardReachesTheInputs) {
  const auto plan =
      PlanText("force_backward: true\n" + std::string(kHead) + Ip("a", "x") + Loss("a"));
  EXPECT_TRUE(LayerOf(*plan, "a").to_input[0]);
  EXPECT_TRUE(LayerOf(*plan, "loss").to_input[1]);
}

TEST(GradientFlow, LabelsThatDependOnParametersAreRefused) {
  const std::string error = test::PlanError(std::string(kHead) + Ip("a", "x") +
                                            "layer { name: \"r\" type: \"Reduction\" bottom: \"a\" "
                                            "top: \"r\" reduction_param { axis: 1 } }\n"
                                            "layer { name: \"loss\" type: \"SoftmaxWithLoss\" "
                                            "bottom: \"a\" bottom: \"r\" top: \"loss\" }\n");
  EXPECT_NE(error.find("bottom 'r"), std::string::npos) << error;
  EXPECT_NE(error.find("propagate_down: false"), std::string::npos) << error;
}

}  // namespace
}  // namespace crema
