// CTCLoss against a sum over all paths, and its messages about bad sequences.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "support/layer_expect.h"

namespace crema::test {
namespace {

using test::kInfinity;

using Path = std::vector<int>;

// Merges repeats, drops blanks.
Path Collapse(const Path& path, int blank) {
  Path labels;
  for (size_t t = 0; t < path.size(); ++t) {
    if (path[t] != blank && (t == 0 || path[t] != path[t - 1])) labels.push_back(path[t]);
  }
  return labels;
}

// Advances to the next path in counting order; returns false after the last one.
bool Advance(Path* path, int classes) {
  for (int& step : *path) {
    if (++step < classes) return true;
    step = 0;
  }
  return false;
}

// -ln of the sum over all paths that collapse to the labels; logits of one item, steps x classes.
double LossOverAllPaths(const Values& logits, int classes, const Path& labels, int blank) {
  const size_t steps = logits.size() / static_cast<size_t>(classes);
  Path path(steps, 0);
  double total = 0;
  do {
    if (Collapse(path, blank) != labels) continue;
    double log_probability = 0;
    for (size_t t = 0; t < steps; ++t) {
      const double* row = logits.data() + t * static_cast<size_t>(classes);
      double norm = 0;
      for (int c = 0; c < classes; ++c) norm += std::exp(row[c]);
      log_probability += row[path[t]] - std::log(norm);
    }
    total += std::exp(log_probability);
  } while (Advance(&path, classes));
  return -std::log(total);
}

Values Wave(size_t count, double phase) {
  Values values(count);
  for (size_t i = 0; i < count; ++i) values[i] = 2 * std::sin(1.7 * static_cast<double>(i) + phase);
  return values;
}

// One item.
LayerCall One(const std::string& param, int64_t steps, int64_t classes, const Values& logits,
              const Values& labels) {
  return {
      .prototxt = "ctc_loss_param { " + param + " }",
      .inputs = {{{steps, 1, classes}, logits}, {{1, static_cast<int64_t>(labels.size())}, labels}},
      .output_grads = {{1}},
      .dtype = DType::kF64};
}

TEST(CTCLossTest, EqualsTheSumOverAllPaths) {
  constexpr int kClasses = 3;
  constexpr int kSteps = 5;
  const std::vector<Path> cases = {{},     {1},       {2},       {1, 2},    {1, 1},
                                   {2, 1}, {1, 2, 1}, {2, 2, 1}, {1, 1, 1}, {1, 2, 1, 2, 1}};
  for (const Path& labels : cases) {
    const Values logits = Wave(kSteps * kClasses, static_cast<double>(labels.size()));
    const double expected = LossOverAllPaths(logits, kClasses, labels, 0);
    const LayerCall call = One("", kSteps, kClasses, logits, Values(labels.begin(), labels.end()));
    ExpectNear(CallBuiltin("CTCLoss", call).outputs[0], {expected}, 1e-10);
  }
}

TEST(CTCLossTest, BlankMayBeAnyClassAndPaddingMinusOneOrBlank) {
  const Values logits = Wave(4 * 3, 0.3);
  const double expected = LossOverAllPaths(logits, 3, {0, 1}, 2);
  for (const char* blank : {"blank_label: 2", "blank_label: -1"}) {
    for (const Values& labels : {Values{0, 1}, Values{0, 1, -1, -1}, Values{0, 1, 2, -1}}) {
      ExpectNear(CallBuiltin("CTCLoss", One(blank, 4, 3, logits, labels)).outputs[0], {expected},
                 1e-10);
    }
  }
}

TEST(CTCLossTest, LengthsCutStepsAndLabelsAndTheBatchIsAveraged) {
  const Values logits = Wave(4 * 2 * 3, 0.1);  // time x 2 items x 3 classes
  Values first, second;
  for (size_t t = 0; t < 4; ++t) {
    for (size_t c = 0; c < 3; ++c) {
      first.push_back(logits[(t * 2) * 3 + c]);
      if (t < 3) second.push_back(logits[(t * 2 + 1) * 3 + c]);
    }
  }
  const RunResult result = CallBuiltin(
      "CTCLoss",
      {.inputs = {{{4, 2, 3}, logits}, {{2, 3}, {1, 2, 1, 2, 2, 1}}, {{2}, {4, 3}}, {{2}, {3, 1}}},
       .output_grads = {{2}},
       .dtype = DType::kF64});
  const double expected = (LossOverAllPaths(first, 3, {1, 2, 1}, 0) +  //
                           LossOverAllPaths(second, 3, {2}, 0)) /
                          2;
  ExpectNear(result.outputs[0], {expected}, 1e-10);
  const Values& gradient = result.input_grads[0];
  for (size_t c = 0; c < 3; ++c) EXPECT_EQ(gradient[(3 * 2 + 1) * 3 + c], 0) << "after the length";
  EXPECT_NE(gradient[(3 * 2) * 3], 0);
}

TEST(CTCLossTest, LargeLogitsDoNotOverflow) {
  const Values logits = {1000, 0, 0, 1000, 1000, 0};
  const RunResult result = CallBuiltin("CTCLoss", One("", 3, 2, logits, {1}));
  ExpectNear(result.outputs[0], {0});
  ExpectNear(result.input_grads[0], Values(6, 0.0));
}

TEST(CTCLossTest, TooFewStepsAreReportedWithTheItem) {
  const LayerCall call{.inputs = {{{4, 2, 3}, Values(24, 0.0)}, {{2, 3}, {1, 2, -1, 1, 1, 1}}}};
  ExpectContains(ErrorOf("CTCLoss", call),
                 "sample 1 of the batch has 4 steps, but its 3 labels need at least 5");
  LayerCall lengths = call;
  lengths.inputs.push_back({{2}, {1, 4}});
  ExpectContains(ErrorOf("CTCLoss", lengths),
                 "sample 0 of the batch has 1 steps, but its 2 labels");
}

TEST(CTCLossTest, ZeroInfinityLeavesImpossibleItemsOut) {
  const Values logits = Wave(4 * 2 * 3, 0.1);
  LayerCall call{.prototxt = "ctc_loss_param { zero_infinity: true }",
                 .inputs = {{{4, 2, 3}, logits}, {{2, 3}, {1, 2, -1, 1, 1, 1}}},
                 .output_grads = {{1}},
                 .dtype = DType::kF64};
  Values first;
  for (size_t t = 0; t < 4; ++t) {
    for (size_t c = 0; c < 3; ++c) first.push_back(logits[(t * 2) * 3 + c]);
  }
  RunResult result = CallBuiltin("CTCLoss", call);
  ExpectNear(result.outputs[0], {LossOverAllPaths(first, 3, {1, 2}, 0) / 2}, 1e-10);
  for (size_t t = 0; t < 4; ++t) {
    for (size_t c = 0; c < 3; ++c) EXPECT_EQ(result.input_grads[0][(t * 2 + 1) * 3 + c], 0);
  }
  // Item 0 is forbidden by its logits.
  call.inputs[0].values.assign(24, 0);
  for (size_t t = 0; t < 4; ++t) call.inputs[0].values[t * 6 + 1] = -kInfinity;
  result = CallBuiltin("CTCLoss", call);
  ExpectNear(result.outputs[0], {0});
  ExpectNear(result.input_grads[0], Values(24, 0.0));
}

TEST(CTCLossTest, ForbiddenByLogitsIsInfiniteAndNanStaysNan) {
  Values logits(6, 0);
  logits[1] = logits[3] = logits[5] = -kInfinity;
  EXPECT_EQ(CallBuiltin("CTCLoss", One("", 3, 2, logits, {1})).outputs[0][0], kInfinity);
  logits.assign(6, 0);
  logits[2] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(std::isnan(CallBuiltin("CTCLoss", One("", 3, 2, logits, {1})).outputs[0][0]));
}

TEST(CTCLossTest, NoStepsAndNoLabelsCostNothing) {
  ExpectNear(CallBuiltin("CTCLoss", {.inputs = {{{0, 1, 2}, {}}, {{1, 1}, {-1}}}}).outputs[0], {0});
}

TEST(CTCLossTest, BadLabelsAndLengthsAreReported) {
  const auto error = [](const Values& labels, const Values& steps, const Values& lengths) {
    LayerCall call{.inputs = {{{4, 1, 3}, Values(12, 0.0)}, {{1, 2}, labels}}};
    if (!steps.empty()) call.inputs.push_back({{1}, steps});
    if (!lengths.empty()) call.inputs.push_back({{1}, lengths});
    return ErrorOf("CTCLoss", call);
  };
  ExpectContains(error({1, 3}, {}, {}),
                 "label 3 at sample 0 of the batch, position 1 but \"in0\" has 3 outputs");
  ExpectContains(error({1, -2}, {}, {}), "label -2 at sample 0 of the batch, position 1");
  ExpectContains(error({1.5, 1}, {}, {}), "is not a whole number");
  ExpectContains(error({1, 2}, {5}, {}),
                 "length 5 at sample 0 of the batch is not a whole number 0..4");
  ExpectContains(error({1, 2}, {-1}, {}), "length -1 at sample 0 of the batch");
  ExpectContains(error({1, 2}, {2.5}, {}), "length 2.5 at sample 0 of the batch");
  ExpectContains(error({1, 2}, {4}, {3}),
                 "length 3 at sample 0 of the batch is not a whole number 0..2");
  ExpectContains(error({1, 2}, {4}, {std::nan("")}), "length nan at sample 0 of the batch");
  ExpectContains(error({1, 0}, {4}, {2}),
                 "label 0 at sample 0 of the batch is padding or the blank");
  ExpectContains(error({-1, 1}, {4}, {1}),
                 "label -1 at sample 0 of the batch is padding or the blank");
  ExpectContains(error({-1, 1}, {}, {}),
                 "label 1 at sample 0 of the batch, position 1 comes after the padding");
}

}  // namespace
}  // namespace crema::test
