// CTCGreedyDecoder, ContinuationIndicator and Reverse.
#include <gtest/gtest.h>

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
