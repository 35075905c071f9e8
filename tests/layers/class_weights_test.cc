// Weights of classes and positions of SoftmaxWithLoss, by hand: with equal scores of K classes each
// label costs ln K times its weight.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "support/layer_expect.h"

namespace crema::test {
namespace {

const Values kLabels = {0, 0, 0, 1, 2, 2};

LayerCall Weighted(const std::string& loss_param) {
  return {.prototxt = "loss_param { normalization: NONE " + loss_param + " }",
          .inputs = {{{6, 4}, Values(24, 0.0)}, {{6}, kLabels}},
          .output_grads = {{1}}};
}

// The weight of the label of each item, as loss and gradient show it.
void ExpectWeights(const LayerCall& call, const Values& expected,
                   const std::string& type = "SoftmaxWithLoss") {
  const RunResult result = CallBuiltin(type, call);
  double sum = 0;
  for (size_t n = 0; n < expected.size(); ++n) {
    sum += expected[n];
    const auto label = static_cast<size_t>(kLabels[n]);
    EXPECT_NEAR(result.input_grads[0][n * 4 + label], -0.75 * expected[n], 1e-6) << n;
    EXPECT_NEAR(result.input_grads[0][n * 4 + (label + 1) % 4], 0.25 * expected[n], 1e-6) << n;
  }
  EXPECT_NEAR(result.outputs[0][0], sum * std::log(4.0), 1e-5);
}

TEST(ClassWeightsTest, ListUnderBothNames) {
  const Values expected = {0.5, 0.5, 0.5, 2, 0, 0};
  ExpectWeights(Weighted("class_weight: [0.5, 2, 0, 7]"), expected);
  ExpectWeights(Weighted("class_weighting: [0.5, 2, 0, 7]"), expected);
  ExpectWeights(Weighted("weight_by_label_freqs: true class_weighting: [0.5, 2, 0, 7]"), expected);
  ExpectWeights(Weighted("weight_by_label_freqs: false class_weighting: [0.5, 2, 0, 7]"),
                Values(6, 1.0));
}

TEST(ClassWeightsTest, BalancedGivesEachClassThatIsThereTheSameShare) {
  const Values expected = {6 / 9.0, 6 / 9.0, 6 / 9.0, 2, 1, 1};  // 6 labels, 3 classes
  ExpectWeights(Weighted("class_weighting_mode: \"balanced\""), expected);
  ExpectWeights(Weighted("weight_by_label_freqs: true"), expected);
}

TEST(ClassWeightsTest, BalancedDoesNotCountIgnoredLabels) {
  const Values expected = {0, 0, 0, 1.5, 0.75, 0.75};  // 3 labels, 2 classes
  ExpectWeights(Weighted("class_weighting_mode: \"balanced\" ignore_label: 0"), expected);
}

TEST(ClassWeightsTest, TheNormalizerCountsLabelsAndNotWeights) {
  LayerCall call = Weighted("class_weight: [0.5, 2, 0, 7]");
  call.prototxt = "loss_param { class_weight: [0.5, 2, 0, 7] }";
  EXPECT_NEAR(CallBuiltin("SoftmaxWithLoss", call).outputs[0][0], 3.5 / 6 * std::log(4.0), 1e-6);
}

TEST(ClassWeightsTest, PositionsHaveWeightsOfTheirOwn) {
  LayerCall call = Weighted("");
  call.inputs.push_back({{6, 1}, {1, 2, 3, 0, 0.5, 4}});
  ExpectWeights(call, {1, 2, 3, 0, 0.5, 4}, "WeightedSoftmaxWithLoss");
  call.prototxt = "loss_param { normalization: NONE class_weight: [2, 3, 4, 5] }";
  ExpectWeights(call, {2, 4, 6, 0, 2, 16}, "WeightedSoftmaxWithLoss");
  call.inputs.pop_back();
  ExpectWeights(call, {2, 2, 2, 3, 4, 4}, "WeightedSoftmaxWithLoss");
}

}  // namespace
}  // namespace crema::test
