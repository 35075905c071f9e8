// Inner products with a margin and LabelSpecificAdd, against their formulas.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "core/strings.h"
#include "support/layer_expect.h"

namespace crema::test {
namespace {

constexpr int kMarginItems = 8, kMarginFeatures = 2, kMarginClasses = 3;

double Length(const double* v) { return std::hypot(v[0], v[1]); }

// The scores with angles, as the papers write them.
Values Scores(const Values& x, const Values& w, const Values& labels, int m, double lambda,
              bool normalizes) {
  Values y;
  for (int n = 0; n < kMarginItems; ++n) {
    for (int j = 0; j < kMarginClasses; ++j) {
      const double *feature = &x[size_t(n * kMarginFeatures)],
                   *weight = &w[size_t(j * kMarginFeatures)];
      const double cosine =
          (feature[0] * weight[0] + feature[1] * weight[1]) / (Length(feature) * Length(weight));
      const double length = Length(feature) * (normalizes ? 1 : Length(weight));
      double score = cosine;
      if (labels[size_t(n)] == j) {
        const double angle = std::acos(cosine);
        const double k = std::min(std::floor(m * angle / std::numbers::pi), m - 1.0);
        const double psi = (int(k) % 2 == 0 ? 1 : -1) * std::cos(m * angle) - 2 * k;
        score = (lambda * cosine + psi) / (1 + lambda);
      }
      y.push_back(length * score);
    }
  }
  return y;
}

TEST(MarginInnerProductTest, HasTheMarginOfThePapers) {
  Values x, w, labels;
  for (int n = 0; n < kMarginItems; ++n) {  // all around the circle
    x.push_back((1 + n) * std::cos(0.8 * n + 0.1));
    x.push_back((1 + n) * std::sin(0.8 * n + 0.1));
    labels.push_back(n % kMarginClasses);
  }
  for (int j = 0; j < kMarginClasses; ++j) {
    w.push_back(0.5 * (j + 1) * std::cos(2.0 * j));
    w.push_back(0.5 * (j + 1) * std::sin(2.0 * j));
  }
  const char* const types[] = {"SINGLE", "DOUBLE", "TRIPLE", "QUADRUPLE"};
  for (int m = 1; m <= 4; ++m) {
    for (const bool normalizes : {false, true}) {
      const std::string name =
          normalizes ? "margin_inner_product_param" : "largemargin_inner_product_param";
      // The call is forward pass 3, so that t is 44.
      const RunResult result = CallBuiltin(
          normalizes ? "MarginInnerProduct" : "LargeMarginInnerProduct",
          {.prototxt = StrCat(name, " { num_output: 3 type: ", types[m - 1],
                              " base: 10 gamma: 0.5 power: 2 iteration: 40 lambda_min: 0.001 }"),
           .inputs = {{{kMarginItems, kMarginFeatures}, x}, {{kMarginItems}, labels}},
           .outputs = 2,
           .dtype = DType::kF64,
           .parameters = {w}});
      const double lambda = 10 / std::pow(1 + 0.5 * 44, 2);
      SCOPED_TRACE(StrCat(name, " ", m));
      ExpectNear(result.outputs[0], Scores(x, w, labels, m, lambda, normalizes));
      ExpectNear(result.outputs[1], {lambda});
    }
  }
}

TEST(MarginInnerProductTest, LambdaStaysAboveItsLeastValue) {
  EXPECT_NEAR(CallBuiltin("MarginInnerProduct",
                          {.prototxt = "margin_inner_product_param { num_output: 1 base: 1000 "
                                       "gamma: 0.12 power: 1 lambda_min: 5 iteration: 100000 }",
                           .inputs = {{{1, 1}, {2}}, {{1}, {0}}},
                           .outputs = 2,
                           .parameters = {{3}}})
                  .outputs[1][0],
              5, 1e-6);
}

TEST(MarginInnerProductTest, FeaturesOfZeroGiveZero) {
  const RunResult result = CallBuiltin(
      "LargeMarginInnerProduct",
      {.prototxt = "largemargin_inner_product_param { num_output: 2 type: QUADRUPLE base: 0 }",
       .inputs = {{{1, 2}, {0, 0}}, {{1}, {1}}},
       .output_grads = {{1, 1}},
       .parameters = {{1, 2, 3, 4}}});
  ExpectNear(result.outputs[0], {0, 0});
  for (const double gradient : result.input_grads[0]) EXPECT_TRUE(std::isfinite(gradient));
}

TEST(MarginInnerProductTest, RefusesLabelsOutsideTheClasses) {
  ExpectContains(
      ErrorOf("MarginInnerProduct", {.prototxt = "margin_inner_product_param { num_output: 2 }",
                                     .inputs = {{{1, 1}, {1}}, {{1}, {2}}},
                                     .parameters = {{1, 1}}}),
      "label 2");
}

TEST(LabelSpecificAddTest, AddsTheBiasAtTheLabel) {
  const LayerCall call{.prototxt = "label_specific_add_param { bias: -0.35 }",
                       .inputs = {{{3, 2}, {0.9, 0.8, 0.1, 0.2, -0.5, 0.5}}, {{3}, {0, 1, 1}}},
                       .output_grads = {{1, 2, 3, 4, 5, 6}}};
  const RunResult result = CallBuiltin("LabelSpecificAdd", call);
  ExpectNear(result.outputs[0], {0.55, 0.8, 0.1, 0.2, -0.5, 0.15});  // 0.2 is below the margin
  ExpectNear(result.input_grads[0], {1, 2, 3, 4, 5, 6});
  LayerCall test = call;
  test.phase = TEST;
  ExpectNear(CallBuiltin("LabelSpecificAdd", test).outputs[0], call.inputs[0].values);
  test.prototxt = "label_specific_add_param { bias: -0.35 transform_test: true }";
  ExpectNear(CallBuiltin("LabelSpecificAdd", test).outputs[0], result.outputs[0]);
}

}  // namespace
}  // namespace crema::test
