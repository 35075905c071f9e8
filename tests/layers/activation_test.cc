// Values of activations from their formulas, at corners that samples do not reach.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "support/layer_expect.h"
#include "support/layer_fixture.h"
#include "support/net.h"

namespace crema::test {
namespace {

using test::ExpectNear;
using test::kInfinity;
using test::kNan;

// One row of values through a layer, and back with a gradient of ones.
RunResult Through(const std::string& type, const std::string& text, const Values& x,
                  DType dtype = DType::kF32) {
  return CallLayer(*TestRegistry().Find(type), {.prototxt = text,
                                                .inputs = {{{static_cast<int64_t>(x.size())}, x}},
                                                .output_grads = {Values(x.size(), 1.0)},
                                                .dtype = dtype});
}

TEST(AbsValTest, GradientAtZeroIsZero) {
  const RunResult result = Through("AbsVal", "", {-2, 0, 3});
  EXPECT_EQ(result.outputs[0], (Values{2, 0, 3}));
  EXPECT_EQ(result.input_grads[0], (Values{-1, 0, 1}));
}

TEST(BnllTest, NeitherOverflowsNorLosesSmallValues) {
  const RunResult result = Through("BNLL", "", {0, 1, -1, 1000, -1000, -20});
  ExpectNear(result.outputs[0], {0.6931472, 1.3132617, 0.3132617, 1000, 0, 0}, 1e-6);
  ExpectNear(result.input_grads[0], {0.5, 0.7310586, 0.2689414, 1, 0, 0});
  EXPECT_NEAR(result.outputs[0][5] / std::exp(-20.0), 1, 1e-5);
  EXPECT_NEAR(result.input_grads[0][5] / std::exp(-20.0), 1, 1e-5);
}

TEST(ClipTest, BoundsPassTheGradientAndWhatLiesBeyondDoesNot) {
  const RunResult result = Through("Clip", "clip_param { min: -1 max: 2 }", {-3, -1, 0, 2, 5});
  EXPECT_EQ(result.outputs[0], (Values{-1, -1, 0, 2, 2}));
  EXPECT_EQ(result.input_grads[0], (Values{0, 1, 1, 1, 0}));
}

TEST(EluTest, ScaledIsSelu) {
  const RunResult result =
      Through("ELU", "elu_param { alpha: 1.6732632 lambda: 1.050701 }", {-1, 0, 2});
  ExpectNear(result.outputs[0], {-1.1113307, 0, 2.101402});
  ExpectNear(result.input_grads[0], {0.6467686, 1.7580993, 1.050701}, 1e-5);
}

TEST(ExpTest, BaseScaleAndShift) {
  const RunResult result =
      Through("Exp", "exp_param { base: 2 scale: 3 shift: 1 }", {-1, 0, 1}, DType::kF64);
  ExpectNear(result.outputs[0], {0.25, 2, 16}, 1e-12);
  const double slope = 3 * std::log(2.0);
  ExpectNear(result.input_grads[0], {0.25 * slope, 2 * slope, 16 * slope}, 1e-12);
}

TEST(LogTest, BaseScaleAndShift) {
  const RunResult result =
      Through("Log", "log_param { base: 10 scale: 9 shift: 1 }", {0, 1, 11}, DType::kF64);
  ExpectNear(result.outputs[0], {0, 1, 2}, 1e-12);
  const double slope = 9 / std::log(10.0);
  ExpectNear(result.input_grads[0], {slope, slope / 10, slope / 100}, 1e-12);
  EXPECT_TRUE(std::isnan(Through("Log", "", {-1}).outputs[0][0]));
  EXPECT_EQ(Through("Log", "", {0}).outputs[0][0], -kInfinity);
}

TEST(SwishTest, SiluIsSwishWithBeta1) {
  const Values x = {-1000, -1, 0, 1, 1000};
  const RunResult swish = Through("Swish", "", x);
  ExpectNear(swish.outputs[0], {0, -0.2689414, 0, 0.7310586, 1000});
  ExpectNear(swish.input_grads[0], {0, 0.0723295, 0.5, 0.9276705, 1});
  EXPECT_EQ(Through("SiLU", "", x).outputs[0], swish.outputs[0]);
  EXPECT_EQ(Through("SiLU", "", x).input_grads[0], swish.input_grads[0]);
  ExpectNear(Through("Swish", "swish_param { beta: 2 }", {1}).outputs[0], {0.8807971});
}

TEST(ThresholdTest, MustBeExceeded) {
  const RunResult result = CallLayer(
      *TestRegistry().Find("Threshold"),
      {.prototxt = "threshold_param { threshold: 0.5 }", .inputs = {{{4}, {0.4, 0.5, 0.6, kNan}}}});
  EXPECT_EQ(result.outputs[0], (Values{0, 0, 1, 0}));
}

TEST(ThresholdTest, TrainedLayersBelowAreRefused) {
  const std::string net = R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "t" type: "Input" top: "t" input_param { shape { dim: 2 dim: 4 } } }
layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip"
  inner_product_param { num_output: 4 } }
layer { name: "step" type: "Threshold" bottom: "ip" top: "step" }
layer { name: "loss" type: "EuclideanLoss" bottom: "step" bottom: "t" top: "loss" }
)";
  EXPECT_NE(PlanError(net).find("a Threshold layer has no gradient"), std::string::npos);
}

// 0 times infinity is NaN.
TEST(ReluTest, InfinityBelowZeroIsZero) {
  for (const char* type : {"ReLU", "ReLU6"}) {
    for (const DType dtype : {DType::kF32, DType::kF64}) {
      const RunResult result =
          CallLayer(*TestRegistry().Find(type), {.inputs = {{{4}, {-kInfinity, -1, 0, kNan}}},
                                                 .output_grads = {{-kInfinity, kInfinity, kNan, 1}},
                                                 .dtype = dtype});
      for (size_t i = 0; i < 3; ++i) EXPECT_EQ(result.outputs[0][i], 0) << type << i;
      EXPECT_TRUE(std::isnan(result.outputs[0][3])) << type;
      for (size_t i = 0; i < 2; ++i) EXPECT_EQ(result.input_grads[0][i], 0) << type << i;
      EXPECT_TRUE(std::isnan(result.input_grads[0][2])) << type;
    }
  }
  const RunResult leaky = Through("ReLU", "relu_param { negative_slope: 0.5 }", {-kInfinity, -4});
  EXPECT_EQ(leaky.outputs[0], (Values{-kInfinity, -2}));
}

TEST(Relu6Test, FlatFromSixOn) {
  const RunResult result =
      Through("ReLU6", "relu6_param { negative_slope: 0.5 }", {-8, 0, 3, 6, 7});
  EXPECT_EQ(result.outputs[0], (Values{-4, 0, 3, 6, 6}));
  EXPECT_EQ(result.input_grads[0], (Values{0.5, 0.5, 1, 0, 0}));
}

TEST(MishTest, KnownValues) {
  const RunResult result = Through("Mish", "", {0, 1, -1, 1000, -100});
  ExpectNear(result.outputs[0], {0, 0.8650984, -0.3034015, 1000, 0});
  ExpectNear(result.input_grads[0], {0.6, 1.0490362, 0.0592160, 1, 0}, 2e-6);
}

TEST(HardSigmoidTest, HasTheSlopeOfMobileNet) {
  const RunResult result = Through("HardSigmoid", "", {-4, -1.5, 0, 1.5, 4});
  ExpectNear(result.outputs[0], {0, 0.25, 0.5, 0.75, 1});
  ExpectNear(result.input_grads[0], {0, 1 / 6.0, 1 / 6.0, 1 / 6.0, 0});
  EXPECT_EQ(Through("HSigmoid", "", {1.5}).outputs[0],
            Through("HardSigmoid", "", {1.5}).outputs[0]);
}

TEST(HardSwishTest, KnownValues) {
  const RunResult result = Through("HardSwish", "", {-4, -1.5, 0, 1.5, 4});
  ExpectNear(result.outputs[0], {0, -0.375, 0, 1.125, 4});
  ExpectNear(result.input_grads[0], {0, 0, 0.5, 1, 1});
  EXPECT_EQ(Through("HSwish", "", {1.5}).outputs[0], Through("HardSwish", "", {1.5}).outputs[0]);
}

TEST(GeluTest, KnownValues) {
  const RunResult exact = Through("GELU", "", {-30, -1, 0, 1, 30}, DType::kF64);
  ExpectNear(exact.outputs[0], {0, -0.15865525393, 0, 0.84134474607, 30}, 1e-10);
  ExpectNear(exact.input_grads[0], {0, -0.08331547058, 0.5, 1.08331547058, 1}, 1e-10);
  const RunResult tanh =
      Through("GELU", "gelu_param { approximation: TANH }", {-30, -1, 0, 1, 30}, DType::kF64);
  ExpectNear(tanh.outputs[0], {0, -0.15880800939, 0, 0.84119199061, 30}, 1e-10);
}

TEST(ActivationTest, NanStaysNan) {
  for (const char* type : {"AbsVal", "BNLL", "ELU", "Exp", "Log", "Swish", "SiLU", "Mish",
                           "HardSwish", "HardSigmoid", "GELU", "ReLU6"}) {
    EXPECT_TRUE(std::isnan(Through(type, "", {kNan}).outputs[0][0])) << type;
  }
  EXPECT_TRUE(std::isnan(Through("Clip", "clip_param { min: 0 max: 1 }", {kNan}).outputs[0][0]));
}

TEST(PreluTest, SlopesOfChannels) {
  const LayerSample sample{.name = "x", .prototxt = "", .inputs = {{.shape = {1, 2, 3}}}};
  const LayerCase layer_case(*TestRegistry().Find("PReLU"), sample, DType::kF32);
  EXPECT_EQ(layer_case.info().parameters[0].filler->value(), 0.25F);
  const CaseValues values{.inputs = {{-1, 0, 2, -4, 5, -6}},
                          .parameters = {{0.5, -2}},
                          .output_grads = {{1, 1, 1, 1, 2, 3}}};
  const RunResult result = RunLayer(layer_case, values, {.backward = true});
  EXPECT_EQ(result.outputs[0], (Values{-0.5, 0, 2, 8, 5, 12}));
  EXPECT_EQ(result.input_grads[0], (Values{0.5, 0.5, 1, -2, 2, -6}));
  EXPECT_EQ(result.parameter_grads[0], (Values{-1, -22}));
}

TEST(PreluTest, SharedSlopeIsAScalar) {
  const LayerSample sample{.name = "x",
                           .prototxt = "prelu_param { channel_shared: true }",
                           .inputs = {{.shape = {2, 2}}}};
  const LayerCase layer_case(*TestRegistry().Find("PReLU"), sample, DType::kF32);
  EXPECT_EQ(layer_case.info().parameters[0].shape, Shape());
  const CaseValues values{
      .inputs = {{-1, 2, -3, -4}}, .parameters = {{0.5}}, .output_grads = {{1, 1, 1, 2}}};
  const RunResult result = RunLayer(layer_case, values, {.backward = true});
  EXPECT_EQ(result.outputs[0], (Values{-0.5, 2, -1.5, -2}));
  EXPECT_EQ(result.parameter_grads[0], (Values{-12}));
}

}  // namespace
}  // namespace crema::test
