// Corners of the losses that samples cannot show: update rules, files, bad labels, edges.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "crema.pb.h"
#include "format/blob_proto.h"
#include "format/file.h"
#include "support/layer_expect.h"
#include "support/temp_dir.h"

namespace crema::test {
namespace {

using test::kNan;

// Every loss with class labels names the item of a bad one.
TEST(LabelLossesTest, BadLabelsAreReportedWithTheItem) {
  struct Case {
    std::string type;
    std::string prototxt = {};
    std::vector<Blob> more = {};
    std::vector<Values> parameters = {};
  };
  const std::vector<Case> cases = {
      {"SoftmaxWithLoss"},
      {"WeightedSoftmaxWithLoss"},
      {"FocalLoss"},
      {"HingeLoss"},
      {"MultinomialLogisticLoss"},
      {"InfogainLoss", "", {{{3, 3}, Values(9, 1.0)}}},
      {"CenterLoss", "center_loss_param { num_output: 3 }", {}, {Values(9, 0.0)}},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.type);
    LayerCall call{.prototxt = one.prototxt,
                   .inputs = {{{2, 3}, Values(6, 0.5)}, {{2}, {2, 0}}},
                   .output_grads = {{1}},
                   .parameters = one.parameters};
    call.inputs.insert(call.inputs.end(), one.more.begin(), one.more.end());
    EXPECT_NO_THROW(CallBuiltin(one.type, call));
    for (const double bad : {3.0, -1.0, 0.5, kNan, 1e20}) {
      call.inputs[1].values[1] = bad;
      ExpectContains(ErrorOf(one.type, call), "at sample 1 of the batch");
    }
  }
}

// A target for each class, as from mixup.
TEST(SoftmaxWithLossTest, TargetsOfOneClassAreLabelsAndOthersAreWeighted) {
  const Values scores = {1, -1, 0.5, 2, 0, -0.5};
  const auto run = [&](const std::string& prototxt, const Blob& labels) {
    return CallBuiltin(
        "SoftmaxWithLoss",
        {.prototxt = prototxt, .inputs = {{{2, 3}, scores}, labels}, .output_grads = {{1}}});
  };
  for (const std::string prototxt :
       {"", "loss_param { label_smoothing: 0.2 normalization: NONE }"}) {
    const RunResult labels = run(prototxt, {{2}, {2, 0}});
    const RunResult targets = run(prototxt, {{2, 3}, {0, 0, 1, 1, 0, 0}});
    ExpectNear(targets.outputs[0], labels.outputs[0]);
    ExpectNear(targets.input_grads[0], labels.input_grads[0]);
    // The loss is linear in the targets.
    const RunResult other = run(prototxt, {{2}, {1, 2}});
    const RunResult mixed = run(prototxt, {{2, 3}, {0, 0.3, 0.7, 0.7, 0, 0.3}});
    ExpectNear(mixed.outputs[0], {0.7 * labels.outputs[0][0] + 0.3 * other.outputs[0][0]});
  }
  // No position is ignored: 0 would be here otherwise.
  ExpectNear(run("loss_param { ignore_label: 1 }", {{2, 3}, {0, 0, 1, 1, 0, 0}}).outputs[0],
             run("", {{2}, {2, 0}}).outputs[0]);
}

TEST(SoftmaxWithLossTest, BadTargetsNameTheItemAndOtherLayersRefuseTargets) {
  LayerCall call{.inputs = {{{2, 3}, Values(6, 0.5)}, {{2, 3}, Values(6, 0.5)}},
                 .output_grads = {{1}}};
  ExpectContains(ErrorOf("FocalLoss", call, ErrorCode::kInvalidArgument),
                 "add include { phase: TEST } to this layer");
  for (const double bad : {-0.1, kNan, std::numeric_limits<double>::infinity()}) {
    call.inputs[1].values[4] = bad;
    const std::string error = ErrorOf("SoftmaxWithLoss", call);
    ExpectContains(error, "at sample 1 of the batch");
    ExpectContains(error, "must be 0 or more");
  }
}

TEST(CenterLossTest, LossAndGradientAreThoseOfTheDistance) {
  const RunResult result =
      CallBuiltin("CenterLoss", {.prototxt = "center_loss_param { num_output: 2 }",
                                 .inputs = {{{2, 2}, {1, 3, 0, 5}}, {{2}, {0, 1}}},
                                 .output_grads = {{3}},
                                 .parameters = {Values(4, 1.0)}});
  ExpectNear(result.outputs[0], {(0 + 4 + 1 + 16) / 4.0});
  ExpectNear(result.input_grads[0], {0, 3, -1.5, 6});
}

TEST(CenterLossTest, CentersFollowThePapersRuleWhateverTheWeight) {
  for (const double weight : {1.0, 5.0}) {
    const RunResult result =
        CallBuiltin("CenterLoss", {.prototxt = "center_loss_param { num_output: 3 }",
                                   .inputs = {{{3, 2}, {4, 1, 7, 3, 0, 0}}, {{3}, {1, 1, 2}}},
                                   .output_grads = {{weight}},
                                   .parameters = {Values(6, 1.0)}});
    // Class 1: (1 - 4 + 1 - 7) / 3 and (1 - 1 + 1 - 3) / 3; class 2: 1 / 2.
    ExpectNear(result.parameter_grads[0], {0, 0, -3, -2 / 3.0, 0.5, 0.5});
  }
}

TEST(InfogainLossTest, MatrixOfAFileIsThatOfTheThirdBottom) {
  const Values matrix = {1, 0.25, 0, 0.5, 2, 0, 0, 0, 3};
  Tensor tensor(Shape{1, 1, 3, 3}, DType::kF64);
  std::copy(matrix.begin(), matrix.end(), tensor.view().data<double>());
  BlobProto blob;
  CopyFrom(tensor.view(), &blob);
  const TempDir dir;
  const std::string path = dir.File("h.binaryproto");
  WriteFileAtomically(path, blob.SerializeAsString());
  LayerCall call{.inputs = {{{2, 3}, {1, 2, 3, 0, -1, 4}}, {{2}, {1, 0}}, {{9}, matrix}},
                 .output_grads = {{1}}};
  const RunResult given = CallBuiltin("InfogainLoss", call);
  call.inputs.pop_back();
  call.prototxt = "infogain_loss_param { source: \"" + path + "\" }";
  const RunResult read = CallBuiltin("InfogainLoss", call);
  EXPECT_EQ(given.outputs, read.outputs);
  EXPECT_EQ(given.input_grads[0], read.input_grads[0]);
  call.inputs[0] = {{2, 2}, {1, 2, 3, 4}};
  ExpectContains(ErrorOf("InfogainLoss", call, ErrorCode::kInvalidArgument),
                 "the matrix has 9 values, but 2 classes need 2x2 = 4");
  WriteFileAtomically(path, "this is no array");
  ExpectContains(ErrorOf("InfogainLoss", call), "h.binaryproto");
}

TEST(ContrastiveLossTest, EqualFeaturesHaveNoDirection) {
  LayerCall call{.inputs = {{{1, 2}, {1, 2}}, {{1, 2}, {1, 2}}, {{1}, {0}}}, .output_grads = {{1}}};
  RunResult result = CallBuiltin("ContrastiveLoss", call);
  ExpectNear(result.outputs[0], {0.5});
  ExpectNear(result.input_grads[0], {0, 0});
  call.inputs[2].values = {0.5};
  ExpectContains(ErrorOf("ContrastiveLoss", call),
                 "0.5 at sample 0 of the batch is not a whole number");
}

TEST(TripletLossTest, EqualFeaturesHaveNoDirection) {
  const RunResult result =
      CallBuiltin("TripletLoss", {.prototxt = "triplet_loss_param { euclidean: true margin: 2 }",
                                  .inputs = {{{1, 2}, {1, 2}}, {{1, 2}, {1, 2}}, {{1, 2}, {1, 3}}},
                                  .output_grads = {{1}}});
  ExpectNear(result.outputs[0], {1});
  ExpectNear(result.input_grads[0], {0, 1});
  ExpectNear(result.input_grads[1], {0, 0});
  ExpectNear(result.input_grads[2], {0, -1});
}

TEST(FocalLossTest, CertainAndImpossibleLabelsStayFinite) {
  for (const char* gamma : {"0", "0.5", "2"}) {
    const RunResult result = CallBuiltin(
        "FocalLoss", {.prototxt = std::string("focal_loss_param { alpha: 1 gamma: ") + gamma + " }",
                      .inputs = {{{2, 2}, {1000, 0, 0, 1000}}, {{2}, {0, 0}}},
                      .output_grads = {{1}}});
    EXPECT_NEAR(result.outputs[0][0], 43.668, 1e-3) << gamma;  // half of -ln FLT_MIN
    ExpectNear(result.input_grads[0], {0, 0, -0.5, 0.5});
  }
}

TEST(SmoothL1LossTest, QuadraticNearZeroAndLinearBeyond) {
  const RunResult result =
      CallBuiltin("SmoothL1Loss", {.prototxt = "smooth_l1_loss_param { sigma: 2 }",
                                   .inputs = {{{1, 4}, {0.125, -0.125, 3, -3}},
                                              {{1, 4}, {0, 0, 0, 0}},
                                              {{1, 4}, {1, 0, 1, 0.5}},
                                              {{1, 4}, {2, 1, 1, 4}}},
                                   .output_grads = {{1}}});
  ExpectNear(result.outputs[0], {2 * 0.03125 + 0 + 2.875 + 4 * 1.375});
  ExpectNear(result.input_grads[0], {2 * 0.5, 0, 1, -0.5 * 4});
  ExpectNear(result.input_grads[1], {-1, 0, -1, 2});
}

TEST(SigmoidCrossEntropyLossTest, LargeScoresStayFiniteAndNanTargetsStayNan) {
  LayerCall call{.inputs = {{{1, 2}, {1000, -1000}}, {{1, 2}, {0, 0}}}, .output_grads = {{1}}};
  const RunResult result = CallBuiltin("SigmoidCrossEntropyLoss", call);
  ExpectNear(result.outputs[0], {1000});
  ExpectNear(result.input_grads[0], {1, 0});
  call.prototxt = "loss_param { ignore_label: 0 }";
  call.inputs[1].values = {kNan, 0};
  EXPECT_TRUE(std::isnan(CallBuiltin("SigmoidCrossEntropyLoss", call).outputs[0][0]));
}

// loss_weight of the text reaches the gradient, of both outputs.
TEST(LossWeightTest, ScalesTheGradient) {
  const auto gradient = [](const std::string& weights) {
    const auto plan = PlanText(R"(
        force_backward: true
        layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }
        layer { name: "y" type: "Input" top: "y" input_param { shape { dim: 2 } } }
        layer { name: "loss" type: "SoftmaxWithLoss" bottom: "x" bottom: "y" top: "loss" top: "p" )" +
                               weights + " }");
    Session session(plan, Weights::Make(*plan, 7), ExecContext(1, 7));
    FillInput(&session, "x", 3);  // the labels stay 0
    session.Forward();
    session.Backward();
    return ValuesOf(session.Gradient("x"));
  };
  const std::vector<float> one = gradient("");
  const std::vector<float> three = gradient("loss_weight: 3 loss_weight: 0");
  const std::vector<float> both = gradient("loss_weight: 1 loss_weight: 2");
  for (size_t i = 0; i < one.size(); ++i) {
    EXPECT_NEAR(three[i], 3 * one[i], 1e-6);
    // The probabilities of a position sum to 1 for any scores.
    EXPECT_NEAR(both[i], one[i], 1e-6);
  }
}

}  // namespace
}  // namespace crema::test
