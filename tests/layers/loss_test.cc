// Hand-computed values of the losses and of Accuracy.
#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>
#include <limits>
#include <string>

#include "support/layer_expect.h"

namespace crema::test {
namespace {

using test::kNan;

// Two positions and two classes a batch item; with equal scores each position costs ln 2.
LayerCall Spatial(const std::string& loss_param) {
  return {.prototxt = loss_param,
          .inputs = {{{2, 2, 2}, Values(8, 0.0)}, {{2, 2}, {0, 1, 2, 1}}},
          .output_grads = {{1}}};
}

TEST(SoftmaxWithLossTest, LossAndGradientOfTwoClasses) {
  const RunResult result =
      CallBuiltin("SoftmaxWithLoss",
                  {.inputs = {{{1, 2}, {0, std::log(3.0)}}, {{1}, {0}}}, .output_grads = {{2}}});
  ExpectNear(result.outputs[0], {std::log(4.0)});
  ExpectNear(result.input_grads[0], {2 * (0.25 - 1), 2 * 0.75});
  EXPECT_TRUE(result.input_grads[1].empty());
}

TEST(SoftmaxWithLossTest, NormalizesAsAsked) {
  const double three = 3 * std::log(2.0);  // positions that are not ignored
  const auto loss = [](const std::string& rule) {
    return CallBuiltin("SoftmaxWithLoss", Spatial("loss_param { ignore_label: 2 " + rule + " }"))
        .outputs[0][0];
  };
  EXPECT_NEAR(loss(""), three / 3, 1e-6);
  EXPECT_NEAR(loss("normalization: VALID"), three / 3, 1e-6);
  EXPECT_NEAR(loss("normalization: FULL"), three / 4, 1e-6);
  EXPECT_NEAR(loss("normalization: BATCH_SIZE"), three / 2, 1e-6);
  EXPECT_NEAR(loss("normalization: NONE"), three, 1e-6);
  EXPECT_NEAR(loss("normalize: true"), three / 3, 1e-6);
  EXPECT_NEAR(loss("normalize: false"), three / 2, 1e-6);
  EXPECT_NEAR(loss("normalize: false normalization: FULL"), three / 4, 1e-6);
  EXPECT_NEAR(loss("normalization: PRE_FIXED pre_fixed_normalizer: 6"), three / 6, 1e-6);
}

TEST(SoftmaxWithLossTest, IgnoredPositionsGetNoGradient) {
  const RunResult result =
      CallBuiltin("SoftmaxWithLoss", Spatial("loss_param { ignore_label: 2 normalization: NONE }"));
  ExpectNear(result.input_grads[0], {-.5, .5, .5, -.5, 0, .5, 0, -.5});
}

TEST(SoftmaxWithLossTest, AllIgnoredGivesZeroLossAndZeroGradient) {
  const RunResult result =
      CallBuiltin("SoftmaxWithLoss", {.prototxt = "loss_param { ignore_label: 255 }",
                                      .inputs = {{{2, 2}, {1, 2, 3, 4}}, {{2}, {255, 255}}},
                                      .output_grads = {{1}}});
  ExpectNear(result.outputs[0], {0});
  ExpectNear(result.input_grads[0], {0, 0, 0, 0});
}

TEST(SoftmaxWithLossTest, ImpossibleLabelCostsAtMostTheLogarithmOfTheSmallestFloat) {
  const RunResult result = CallBuiltin(
      "SoftmaxWithLoss", {.inputs = {{{1, 2}, {0, 1000}}, {{1}, {0}}}, .output_grads = {{1}}});
  ExpectNear(result.outputs[0], {-std::log(FLT_MIN)}, 1e-4);
  ExpectNear(result.input_grads[0], {-1, 1});
}

TEST(SoftmaxWithLossTest, SecondOutputHoldsTheProbabilitiesAndItsGradientCounts) {
  LayerCall call{.inputs = {{{2, 3}, {1, 2, 3, 0, -1, 4}}, {{2}, {2, 0}}}, .output_grads = {{1}}};
  const RunResult one = CallBuiltin("SoftmaxWithLoss", call);
  call.outputs = 2;
  call.output_grads = {{1}, Values(6, 0.0)};
  const RunResult two = CallBuiltin("SoftmaxWithLoss", call);
  EXPECT_EQ(one.outputs[0], two.outputs[0]);
  EXPECT_EQ(one.input_grads[0], two.input_grads[0]);
  const Values& p = two.outputs[1];
  EXPECT_NEAR(p[0] + p[1] + p[2], 1, 1e-6);
  EXPECT_NEAR(p[2], 1 / (1 + std::exp(-1.0) + std::exp(-2.0)), 1e-6);
  call.output_grads = {{0}, {0, 0, 1, 0, 0, 0}};
  ExpectNear(CallBuiltin("SoftmaxWithLoss", call).input_grads[0],
             {-p[2] * p[0], -p[2] * p[1], p[2] * (1 - p[2]), 0, 0, 0});
}

TEST(SoftmaxWithLossTest, LabelSmoothingMovesTheTarget) {
  const RunResult result =
      CallBuiltin("SoftmaxWithLoss", {.prototxt = "loss_param { label_smoothing: 0.2 }",
                                      .inputs = {{{1, 3}, {0, 0, 0}}, {{1}, {1}}},
                                      .output_grads = {{1}}});
  const double third = 1 / 3.0;
  ExpectNear(result.outputs[0], {std::log(3.0)});
  ExpectNear(result.input_grads[0], {third - 0.1, third - 0.8, third - 0.1});
}

TEST(SoftmaxWithLossTest, LabelsOutsideTheClassesAreReportedWithTheItem) {
  LayerCall call{.inputs = {{{4, 21}, Values(84, 0.0)}, {{4}, {0, 20, 3, 94}}}};
  const std::string text = ErrorOf("SoftmaxWithLoss", call);
  EXPECT_NE(text.find("label 94 at sample 3 of the batch but \"in0\" has 21 outputs (labels 0..20; "
                      "correct the label, or use more outputs (num_output))"),
            std::string::npos)
      << text;
  call.inputs[1].values[3] = -1;
  EXPECT_NE(ErrorOf("SoftmaxWithLoss", call).find("label -1 at sample 3 of the batch"),
            std::string::npos);
  call.inputs[1].values[3] = 21;
  EXPECT_NE(ErrorOf("SoftmaxWithLoss", call)
                .find("label 21 at sample 3 of the batch but \"in0\" has 21 outputs (labels 0..20; "
                      "does your set start at 1?)"),
            std::string::npos);
  call.inputs[1].values[3] = 255;
  EXPECT_NE(ErrorOf("SoftmaxWithLoss", call).find("is it an ignore_label?"), std::string::npos);
  for (double bad : {2.5, kNan, std::numeric_limits<double>::infinity()}) {
    call.inputs[1].values[3] = bad;
    EXPECT_NE(ErrorOf("SoftmaxWithLoss", call).find("not a whole number"), std::string::npos);
  }
  call.inputs[1].values[3] = 3e9;
  EXPECT_NE(ErrorOf("SoftmaxWithLoss", call).find("at sample 3 of the batch"), std::string::npos);
}

TEST(SoftmaxWithLossTest, LabelsInMapsAreReportedWithItemAndPosition) {
  LayerCall call = Spatial("");
  EXPECT_NE(
      ErrorOf("SoftmaxWithLoss", call).find("label 2 at sample 1 of the batch, position 0 but"),
      std::string::npos);
}

TEST(SoftmaxWithLossTest, NanScoresGiveNanLoss) {
  const RunResult result =
      CallBuiltin("SoftmaxWithLoss", {.inputs = {{{1, 2}, {kNan, 1}}, {{1}, {1}}}});
  EXPECT_TRUE(std::isnan(result.outputs[0][0]));
}

TEST(EuclideanLossTest, HalfTheMeanSquaredDistanceWithBothGradients) {
  const RunResult result = CallBuiltin(
      "EuclideanLoss",
      {.inputs = {{{2, 2}, {1, 2, 3, 4}}, {{2, 2}, {0, 2, 5, 1}}}, .output_grads = {{3}}});
  ExpectNear(result.outputs[0], {(1 + 0 + 4 + 9) / 4.0});
  ExpectNear(result.input_grads[0], {1.5, 0, -3, 4.5});
  ExpectNear(result.input_grads[1], {-1.5, 0, 3, -4.5});
}

TEST(EuclideanLossTest, EmptyBatchCostsNothing) {
  const RunResult result = CallBuiltin("EuclideanLoss", {.inputs = {{{0, 2}, {}}, {{0, 2}, {}}}});
  ExpectNear(result.outputs[0], {0});
}

double AccuracyOf(const std::string& prototxt, const Values& scores, const Values& labels) {
  const auto items = static_cast<int64_t>(labels.size());
  const auto classes = static_cast<int64_t>(scores.size()) / items;
  return CallBuiltin("Accuracy", {.prototxt = prototxt,
                                  .inputs = {{{items, classes}, scores}, {{items}, labels}}})
      .outputs[0][0];
}

TEST(AccuracyTest, CountsTheBestScore) {
  EXPECT_NEAR(AccuracyOf("", {1, 2, 3, 3, 2, 1, 0, 9, 0}, {2, 1, 1}), 2 / 3.0, 1e-6);
}

TEST(AccuracyTest, TiesCountAgainst) {
  EXPECT_EQ(AccuracyOf("", {5, 5, 1}, {0}), 0);
  EXPECT_EQ(AccuracyOf("", {5, 5, 1}, {1}), 0);
  EXPECT_EQ(AccuracyOf("accuracy_param { top_k: 2 }", {5, 5, 1}, {0}), 1);
  EXPECT_EQ(AccuracyOf("accuracy_param { top_k: 2 }", {5, 5, 5}, {0}), 0);
  EXPECT_EQ(AccuracyOf("accuracy_param { top_k: 3 }", {5, 5, 5}, {2}), 1);
}

TEST(AccuracyTest, NanScoreOfTheLabelCountsAsRightAsInCaffe) {
  EXPECT_EQ(AccuracyOf("", {kNan, 5, 1}, {0}), 1);
  EXPECT_EQ(AccuracyOf("", {kNan, 5, 1}, {1}), 1);
  EXPECT_EQ(AccuracyOf("", {kNan, 5, 1}, {2}), 0);
}

TEST(AccuracyTest, IgnoredItemsDoNotCount) {
  const std::string ignore = "accuracy_param { ignore_label: 2 }";
  EXPECT_EQ(AccuracyOf(ignore, {1, 0, 0, 1, 0, 0, 0, 1, 0}, {0, 2, 0}), 0.5);
  EXPECT_EQ(AccuracyOf(ignore, {1, 0, 0}, {2}), 0);
}

TEST(AccuracyTest, SecondOutputIsTheShareOfEachClass) {
  const RunResult result = CallBuiltin(
      "Accuracy", {.inputs = {{{4, 3}, {9, 0, 0, 0, 9, 0, 9, 0, 0, 0, 9, 0}}, {{4}, {0, 1, 1, 0}}},
                   .outputs = 2});
  ExpectNear(result.outputs[0], {0.5});
  ExpectNear(result.outputs[1], {0.5, 0.5, 0});
}

TEST(AccuracyTest, LabelsOutsideTheClassesAreReported) {
  const LayerCall call{.inputs = {{{2, 3}, Values(6, 0.0)}, {{2}, {0, 3}}}};
  EXPECT_NE(
      ErrorOf("Accuracy", call).find("label 3 at sample 1 of the batch but \"in0\" has 3 outputs"),
      std::string::npos);
}

}  // namespace
}  // namespace crema::test
