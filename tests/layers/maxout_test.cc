// Maxout and SReLU of Caffe's forks, on given numbers.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/layer_expect.h"

namespace crema::test {
namespace {

// Two items of four channels with two elements each.
const Blob kImage{{2, 4, 2}, {1, 2, 3, 0, -1, -2, -3, 5, 0, 0, 0, 1, 7, 6, 7, 8}};

TEST(MaxoutTest, TakesTheLargestOfAdjacentChannels) {
  for (const char* text : {"maxout_param { num_output: 2 }", "maxout_param { chgroup_sz: 2 }"}) {
    const RunResult result = CallBuiltin(
        "Maxout",
        {.prototxt = text, .inputs = {kImage}, .output_grads = {{1, 2, 3, 4, 5, 6, 7, 8}}});
    ExpectNear(result.outputs[0], {3, 2, -1, 5, 0, 1, 7, 8});
    // Of equal values the first gets the gradient.
    ExpectNear(result.input_grads[0], {0, 2, 1, 0, 3, 0, 0, 4, 5, 0, 0, 6, 7, 0, 0, 8});
  }
}

TEST(MaxoutTest, NanIsTheLargest) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const RunResult result = CallBuiltin("Maxout", {.prototxt = "maxout_param { num_output: 1 }",
                                                  .inputs = {{{1, 3}, {1, nan, 2}}},
                                                  .output_grads = {{1}}});
  EXPECT_TRUE(std::isnan(result.outputs[0][0]));
  ExpectNear(result.input_grads[0], {0, 1, 0});
}

TEST(SReluTest, HasThreeLines) {
  const RunResult result = CallBuiltin("SReLU", {.inputs = {{{1, 1, 5}, {-3, -1, 0, 1, 3}}},
                                                 .output_grads = {{1, 2, 3, 4, 5}},
                                                 .parameters = {{1}, {0.5}, {-1}, {2}}});
  ExpectNear(result.outputs[0], {-5, -1, 0, 1, 2});
  ExpectNear(result.input_grads[0], {2, 4, 3, 2, 2.5});
  ExpectNear(result.parameter_grads[0], {0.5 * (4 + 5)});  // right threshold, then right slope
  ExpectNear(result.parameter_grads[1], {5 * 2});
  ExpectNear(result.parameter_grads[2], {-1 * (1 + 2)});  // left threshold, then left slope
  ExpectNear(result.parameter_grads[3], {1 * -2});
}

TEST(SReluTest, StartsAsInTheFork) {
  const RunResult result = CallBuiltin(
      "SReLU", {.inputs = {{{1, 1, 3}, {-4, 0.5, 3}}}, .parameters = {{1}, {1}, {0}, {0.25}}});
  ExpectNear(result.outputs[0], {-1, 0.5, 3});
  const LayerSample plain{.name = "x", .inputs = {{.shape = {1, 2}}}};
  const LayerCase layer_case(*TestRegistry().Find("SReLU"), plain, DType::kF32);
  ASSERT_EQ(layer_case.info().parameters.size(), 4U);
  const float expected[] = {1, 1, 0, 0.25F};
  for (size_t k = 0; k < 4; ++k) {
    EXPECT_EQ(layer_case.info().parameters[k].filler->value(), expected[k]);
    EXPECT_EQ(layer_case.info().parameters[k].shape, Shape{2});
  }
}

TEST(SReluTest, ChannelsHaveValuesOfTheirOwn) {
  const Blob x{{1, 2, 2}, {-2, 2, -2, 2}};
  const RunResult result =
      CallBuiltin("SReLU", {.inputs = {x}, .parameters = {{1, 0}, {0, 3}, {0, -1}, {1, 0}}});
  ExpectNear(result.outputs[0], {-2, 1, -1, 6});
}

}  // namespace
}  // namespace crema::test
