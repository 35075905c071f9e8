// CTCGreedyDecoder, CTCBeamSearchDecoder, ContinuationIndicator and Reverse.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <tuple>
#include <vector>

#include "core/strings.h"
#include "support/layer_expect.h"

namespace crema::test {
namespace {

// Scores whose largest class of each step is given, for two sequences of 5 steps and 3 classes.
Values ScoresOf(const std::vector<int>& classes) {
  Values scores;
  for (const int best : classes) {
    for (int c = 0; c < 3; ++c) scores.push_back(c == best ? 0.75 : 0.125);
  }
  return scores;
}

// Steps of both sequences in turn: 0 0 2 0 1 and 1 2 2 1 1; 2 is the blank.
const std::vector<int> kBest = {0, 1, 0, 2, 2, 2, 0, 1, 1, 1};
const Blob kIndicators{{5, 2}, {0, 0, 1, 1, 1, 1, 1, 1, 1, 0}};  // the second has 4 steps

TEST(CtcGreedyDecoderTest, MergesRepetitionsAndDropsBlanks) {
  const RunResult result = CallBuiltin(
      "CTCGreedyDecoder", {.inputs = {{{5, 2, 3}, ScoresOf(kBest)}, kIndicators}, .outputs = 2});
  ExpectNear(result.outputs[0], {0, 0, 1, -1, -1, 1, 1, -1, -1, -1});
  ExpectNear(result.outputs[1], {-5 * 0.75, -4 * 0.75});
}

TEST(CtcGreedyDecoderTest, KeepsRepetitionsIfAsked) {
  const RunResult result =
      CallBuiltin("CTCGreedyDecoder",
                  {.prototxt = "ctc_decoder_param { blank_index: 1 ctc_merge_repeated: false }",
                   .inputs = {{{5, 2, 3}, ScoresOf(kBest)}, kIndicators}});
  ExpectNear(result.outputs[0], {0, 0, 2, 0, -1, 2, 2, -1, -1, -1});
}

TEST(CtcGreedyDecoderTest, CountsSequencesThatEqualTheirTargets) {
  const Blob targets{{5, 2}, {0, 1, 0, 1, 1, 0, -1, -1, -1, -1}};  // 0 0 1, and 1 1 0
  const LayerCall call{.inputs = {{{5, 2, 3}, ScoresOf(kBest)}, kIndicators, targets},
                       .outputs = 2};
  ExpectNear(CallBuiltin("CTCGreedyDecoder", call).outputs[1], {0.5});
}

// A path of probability 0.36 gives the empty sequence; three of 0.64 together give 0.
TEST(CtcBeamSearchDecoderTest, AddsThePathsThatGiveASequence) {
  const Values logs = {std::log(0.4), std::log(0.6), std::log(0.4), std::log(0.6)};
  const LayerCall call{.inputs = {{{2, 1, 2}, logs}, {{2, 1}, {0, 1}}}, .outputs = 2};
  ExpectNear(CallBuiltin("CTCGreedyDecoder", call).outputs[0], {-1, -1});
  const RunResult result = CallBuiltin("CTCBeamSearchDecoder", call);
  ExpectNear(result.outputs[0], {0, -1});
  ExpectNear(result.outputs[1], {-std::log(0.64)});
}

TEST(CtcBeamSearchDecoderTest, ANarrowBeamMissesIt) {
  const Values logs = {std::log(0.4), std::log(0.6), std::log(0.4), std::log(0.6)};
  const RunResult result =
      CallBuiltin("CTCBeamSearchDecoder", {.prototxt = "ctc_decoder_param { beam_width: 1 }",
                                           .inputs = {{{2, 1, 2}, logs}, {{2, 1}, {0, 1}}},
                                           .outputs = 2});
  ExpectNear(result.outputs[0], {-1, -1});
  ExpectNear(result.outputs[1], {-std::log(0.36)});
}

struct Found {
  std::vector<int> sequence;
  double probability = 0;
};

// Returns the most probable sequence of all, from all paths. `logits` has a row for each step.
Found BestOfAllPaths(const std::vector<Values>& logits, int blank, bool merges) {
  const size_t classes = logits[0].size();
  std::map<std::vector<int>, double> sums;
  size_t paths = 1;
  for (size_t t = 0; t < logits.size(); ++t) paths *= classes;
  for (size_t path = 0; path < paths; ++path) {
    std::vector<int> sequence;
    double probability = 1;
    int before = -1;
    size_t rest = path;
    for (const Values& row : logits) {
      const int c = static_cast<int>(rest % classes);
      rest /= classes;
      double sum = 0;
      for (const double logit : row) sum += std::exp(logit);
      probability *= std::exp(row[static_cast<size_t>(c)]) / sum;
      if (c != blank && !(merges && c == before)) sequence.push_back(c);
      before = c;
    }
    sums[sequence] += probability;
  }
  Found best;
  for (const auto& [sequence, probability] : sums) {
    if (probability > best.probability) best = {sequence, probability};
  }
  return best;
}

class CtcBeamSearch : public testing::TestWithParam<std::tuple<int, int, bool>> {};

// The beam holds all sequences, so that nothing is lost.
TEST_P(CtcBeamSearch, FindsTheBestOfAllPaths) {
  const auto [classes, blank, merges] = GetParam();
  constexpr int kSteps = 5, kItems = 20;
  std::mt19937 random(7);
  std::normal_distribution<double> normal(0, 1.5);
  Values scores, indicators;
  for (int t = 0; t < kSteps; ++t) {
    // Sequence n has 1 + n % kSteps steps.
    for (int n = 0; n < kItems; ++n) indicators.push_back(t > 0 && t <= n % kSteps ? 1 : 0);
    for (int i = 0; i < kItems * classes; ++i) scores.push_back(normal(random));
  }
  const RunResult result =
      CallBuiltin("CTCBeamSearchDecoder",
                  {.prototxt = StrCat("ctc_decoder_param { beam_width: 2000 blank_index: ", blank,
                                      " ctc_merge_repeated: ", merges ? "true" : "false", " }"),
                   .inputs = {{{kSteps, kItems, classes}, scores}, {{kSteps, kItems}, indicators}},
                   .outputs = 2,
                   .dtype = DType::kF64});
  for (int n = 0; n < kItems; ++n) {
    std::vector<Values> logits;
    for (int t = 0; t <= n % kSteps; ++t) {
      const auto row = scores.begin() + (t * kItems + n) * classes;
      logits.emplace_back(row, row + classes);
    }
    const Found best = BestOfAllPaths(logits, blank < 0 ? classes - 1 : blank, merges);
    std::vector<int> sequence;
    for (int t = 0; t < kSteps; ++t) {
      const double c = result.outputs[0][static_cast<size_t>(n * kSteps + t)];
      if (c >= 0) sequence.push_back(static_cast<int>(c));
    }
    EXPECT_EQ(sequence, best.sequence) << n;
    EXPECT_NEAR(result.outputs[1][static_cast<size_t>(n)], -std::log(best.probability), 1e-6) << n;
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, CtcBeamSearch,
                         testing::Combine(testing::Values(2, 3, 4), testing::Values(-1, 0),
                                          testing::Bool()));

TEST(CtcBeamSearchDecoderTest, ScoresThatAreNoNumbersGiveNothing) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const RunResult result =
      CallBuiltin("CTCBeamSearchDecoder",
                  {.inputs = {{{2, 1, 2}, {1, 0, nan, 2}}, {{2, 1}, {0, 1}}}, .outputs = 2});
  ExpectNear(result.outputs[0], {-1, -1});
  EXPECT_TRUE(std::isnan(result.outputs[1][0]));
}

TEST(ContinuationIndicatorTest, MarksFirstSteps) {
  ExpectNear(CallBuiltin("ContinuationIndicator",
                         {.prototxt = "continuation_indicator_param { time_step: 3 batch_size: 2 }",
                          .inputs = {}})
                 .outputs[0],
             {0, 0, 1, 1, 1, 1});
}

TEST(ReverseTest, ReversesOneAxis) {
  const RunResult result = CallBuiltin("Reverse", {.prototxt = "reverse_param { axis: 1 }",
                                                   .inputs = {{{2, 3}, {1, 2, 3, 4, 5, 6}}},
                                                   .output_grads = {{1, 2, 3, 4, 5, 6}}});
  ExpectNear(result.outputs[0], {3, 2, 1, 6, 5, 4});
  ExpectNear(result.input_grads[0], {3, 2, 1, 6, 5, 4});
}

}  // namespace
}  // namespace crema::test
