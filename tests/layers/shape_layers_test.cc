// Hand-computed values of the layers that move elements, and their behaviour inside nets.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "core/error.h"
#include "support/layer_expect.h"
#include "support/layer_fixture.h"
#include "support/net.h"

namespace crema::test {
namespace {

using test::CallBuiltin;

Blob Counting(std::vector<int64_t> shape) {
  Blob blob{std::move(shape), {}};
  int64_t count = 1;
  for (int64_t dim : blob.shape) count *= dim;
  blob.values.resize(static_cast<size_t>(count));
  std::iota(blob.values.begin(), blob.values.end(), 0.0);
  return blob;
}

Shape ShapeAfter(const char* type, const std::string& fields, std::vector<int64_t> shape) {
  const LayerSample sample{
      .name = "x", .prototxt = fields, .inputs = {{.shape = std::move(shape)}}};
  return LayerCase(*TestRegistry().Find(type), sample, DType::kF32).info().outputs[0].shape;
}

TEST(ReshapeTest, ShapesAreCaffes) {
  const auto shape = [](const std::string& fields) {
    return ShapeAfter("Reshape", "reshape_param { " + fields + " }", {2, 3, 4, 5});
  };
  EXPECT_EQ(shape("shape { dim: 0 dim: 6 dim: -1 }"), Shape({2, 6, 10}));
  EXPECT_EQ(shape("shape { dim: 0 dim: 0 dim: -1 dim: 1 dim: 1 }"), Shape({2, 3, 20, 1, 1}));
  EXPECT_EQ(shape("axis: 1 shape { dim: -1 }"), Shape({2, 60}));
  EXPECT_EQ(shape("axis: 1 num_axes: 2 shape { dim: 0 dim: 2 dim: -1 }"), Shape({2, 3, 2, 2, 5}));
  EXPECT_EQ(shape("axis: -1 shape { dim: 1 }"), Shape({2, 3, 4, 5, 1}));
  EXPECT_EQ(shape("axis: -2 num_axes: 0 shape { dim: 1 }"), Shape({2, 3, 4, 1, 5}));
  // The copied size may be of an axis that is not replaced.
  EXPECT_EQ(shape("axis: 1 num_axes: 2 shape { dim: -1 dim: 0 dim: 1 }"), Shape({2, 3, 4, 1, 5}));
}

TEST(ReshapeTest, AnEmptyBatchCanBeCopied) {
  EXPECT_EQ(ShapeAfter("Reshape", "reshape_param { shape { dim: 0 dim: -1 } }", {0, 3, 2}),
            Shape({0, 6}));
}

TEST(SliceTest, CutsAtThePoints) {
  const RunResult result =
      CallBuiltin("Slice", {.prototxt = "slice_param { axis: 1 slice_point: 1 slice_point: 3 }",
                            .inputs = {Counting({2, 4})},
                            .outputs = 3,
                            .output_grads = {{1, 2}, {3, 4, 5, 6}, {7, 8}}});
  EXPECT_EQ(result.outputs[0], (Values{0, 4}));
  EXPECT_EQ(result.outputs[1], (Values{1, 2, 5, 6}));
  EXPECT_EQ(result.outputs[2], (Values{3, 7}));
  EXPECT_EQ(result.input_grads[0], (Values{1, 3, 4, 7, 2, 5, 6, 8}));
}

TEST(TileTest, RepeatsBlocks) {
  const RunResult result = CallBuiltin("Tile", {.prototxt = "tile_param { axis: 1 tiles: 2 }",
                                                .inputs = {Counting({2, 1, 2})},
                                                .output_grads = {{1, 2, 3, 4, 5, 6, 7, 8}}});
  EXPECT_EQ(result.outputs[0], (Values{0, 1, 0, 1, 2, 3, 2, 3}));
  EXPECT_EQ(result.input_grads[0], (Values{4, 6, 12, 14}));
}

TEST(CropTest, TakesTheMiddleAndPadsTheGradientWithZeros) {
  const RunResult result =
      CallBuiltin("Crop", {.prototxt = "crop_param { axis: 0 offset: 1 offset: 2 }",
                           .inputs = {Counting({3, 4}), Counting({2, 1})},
                           .output_grads = {{5, 6}}});
  EXPECT_EQ(result.outputs[0], (Values{6, 10}));
  EXPECT_EQ(result.input_grads[0], (Values{0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 6, 0}));
}

TEST(PermuteTest, AxesThatAreNotGivenFollow) {
  // Order 2, 0, 1.
  const RunResult result = CallBuiltin("Permute", {.prototxt = "permute_param { order: 2 }",
                                                   .inputs = {Counting({2, 1, 3})},
                                                   .output_grads = {{0, 1, 2, 3, 4, 5}}});
  EXPECT_EQ(result.outputs[0], (Values{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(result.input_grads[0], (Values{0, 2, 4, 1, 3, 5}));
}

// Every element by its own index, for orders of 4 axes.
TEST(PermuteTest, AgreesWithPlainLoops) {
  const std::vector<int64_t> dims = {3, 4, 2, 5};
  std::vector<int> order = {0, 1, 2, 3};
  const Shape from{3, 4, 2, 5};
  while (std::next_permutation(order.begin(), order.end())) {
    std::string text = "transpose_param {";
    std::vector<int64_t> to_dims;
    for (int axis : order) {
      text += " dim: " + std::to_string(axis);
      to_dims.push_back(dims[static_cast<size_t>(axis)]);
    }
    const Shape to{std::span<const int64_t>(to_dims)};
    const RunResult result =
        CallBuiltin("Transpose", {.prototxt = text + " }", .inputs = {Counting(dims)}});
    for (int64_t o = 0; o < to.count(); ++o) {
      int64_t source = 0;
      for (int j = 0; j < 4; ++j) {
        source += o / to.count(j + 1) % to[j] * from.count(order[static_cast<size_t>(j)] + 1);
      }
      ASSERT_EQ(result.outputs[0][static_cast<size_t>(o)], static_cast<double>(source)) << text;
    }
  }
}

TEST(ShuffleChannelTest, InterleavesTheGroups) {
  const RunResult result =
      CallBuiltin("ShuffleChannel",
                  {.prototxt = "shuffle_channel_param { group: 2 }", .inputs = {Counting({1, 6})}});
  EXPECT_EQ(result.outputs[0], (Values{0, 3, 1, 4, 2, 5}));
}

TEST(ReorgTest, OrderIsThatOfYolo) {
  // 4 channels of 2 x 2, stride 2. Output (a, b, k = 0, j, i) is element (0, j, a, i, b) of a
  // 1 x 2 x 2 x 2 x 2 reading of the input: 8 j + 4 a + 2 i + b.
  const RunResult result = CallBuiltin(
      "Reorg", {.prototxt = "reorg_param { stride: 2 }", .inputs = {Counting({1, 4, 2, 2})}});
  EXPECT_EQ(result.outputs[0], (Values{0, 2, 8, 10, 1, 3, 9, 11, 4, 6, 12, 14, 5, 7, 13, 15}));
}

TEST(ReorgTest, ReverseMovesChannelsIntoBlocksOfPixels) {
  const RunResult result = CallBuiltin(
      "Reorg",
      {.prototxt = "reorg_param { stride: 2 reverse: true }", .inputs = {Counting({1, 4, 1, 2})}});
  // Rows: channels 0 and 1 in turn, then 2 and 3.
  EXPECT_EQ(result.outputs[0], (Values{0, 2, 1, 3, 4, 6, 5, 7}));
}

TEST(PadTest, ModesOutside) {
  const auto pad = [](const std::string& fields) {
    return CallBuiltin("Pad", {.prototxt = "pad_param { axis: 1 " + fields + " }",
                               .inputs = {{{1, 4}, {1, 2, 3, 4}}}})
        .outputs[0];
  };
  EXPECT_EQ(pad("pad_before: 2 pad_after: 1 value: 9"), (Values{9, 9, 1, 2, 3, 4, 9}));
  EXPECT_EQ(pad("pad_before: 3 pad_after: 2 mode: REFLECT"), (Values{4, 3, 2, 1, 2, 3, 4, 3, 2}));
  EXPECT_EQ(pad("pad: 2 mode: REPLICATE"), (Values{1, 1, 1, 2, 3, 4, 4, 4}));
}

TEST(PadTest, CornersOfAPlane) {
  const RunResult result =
      CallBuiltin("Pad", {.prototxt = "pad_param { axis: 0 pad: 1 mode: REPLICATE }",
                          .inputs = {{{2, 2}, {1, 2, 3, 4}}},
                          .output_grads = {Values(16, 1.0)}});
  EXPECT_EQ(result.outputs[0], (Values{1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4}));
  EXPECT_EQ(result.input_grads[0], (Values{4, 4, 4, 4}));
}

TEST(FilterTest, KeepsWhatTheSelectorPicks) {
  const RunResult result =
      CallBuiltin("Filter", {.inputs = {Counting({3, 2}), Counting({3}), {{3, 1}, {1, 0, 1}}},
                             .outputs = 2,
                             .output_grads = {{1, 2, 3, 4, 0, 0}, {5, 6, 0}}});
  EXPECT_EQ(result.outputs[0], (Values{0, 1, 4, 5}));
  EXPECT_EQ(result.outputs[1], (Values{0, 2}));
  EXPECT_EQ(result.input_grads[0], (Values{1, 2, 0, 0, 3, 4}));
  EXPECT_EQ(result.input_grads[1], (Values{5, 0, 6}));
}

TEST(FilterTest, ASelectorThatIsNoNumberIsRefused) {
  const LayerCall call{
      .inputs = {Counting({2, 2}), {{2}, {1, std::numeric_limits<double>::quiet_NaN()}}}};
  EXPECT_THROW(CallBuiltin("Filter", call), Error);
}

// Layers after a Filter get the remaining items, whose number changes from pass to pass.
TEST(FilterTest, LaterLayersFollowTheNumberOfItems) {
  const auto plan = PlanText(R"(
      force_backward: true
      layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 2 } } }
      layer { name: "s" type: "Input" top: "s" input_param { shape { dim: 4 } } }
      layer { name: "f" type: "Filter" bottom: "x" bottom: "s" top: "y" }
      layer { name: "t" type: "Tile" bottom: "y" top: "z" tile_param { tiles: 2 } }
      layer { name: "r" type: "Reduction" bottom: "z" top: "loss" loss_weight: 1 })");
  Session session(plan, Weights::Make(*plan, 1), ExecContext(1));
  FillInput(&session, "x", 1);
  const std::vector<float> x = ValuesOf(session.Data("x"));
  for (unsigned picked : {5U, 15U, 0U, 8U}) {
    float expected = 0;
    int64_t kept = 0;
    for (size_t n = 0; n < 4; ++n) {
      const bool keep = ((picked >> n) & 1U) != 0;
      session.MutableData("s").data<float>()[n] = keep ? 1 : 0;
      if (!keep) continue;
      ++kept;
      expected += 2 * (x[2 * n] + x[2 * n + 1]);
    }
    EXPECT_NEAR(session.Forward(), expected, 1e-5);
    EXPECT_EQ(session.Data("z").shape(), Shape({kept, 4}));
    session.Backward();
    const std::vector<float> dx = ValuesOf(session.Gradient("x"));
    for (size_t n = 0; n < 4; ++n) {
      EXPECT_EQ(dx[2 * n], ((picked >> n) & 1U) != 0 ? 2.0F : 0.0F) << picked;
    }
  }
}

// Moving layers have no shapes of their own: another batch size goes through all of them.
TEST(MovingLayers, SizesMayChangeBetweenPasses) {
  const auto plan = PlanText(R"(
      force_backward: true
      layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 8 dim: 4 dim: 6 } } }
      layer { name: "a" type: "Reshape" bottom: "x" top: "a" reshape_param { shape { dim: 0 dim: 0 dim: 6 dim: -1 } } }
      layer { name: "b" type: "Permute" bottom: "a" top: "b" permute_param { order: 0 order: 1 order: 3 order: 2 } }
      layer { name: "c" type: "Slice" bottom: "b" top: "c1" top: "c2" slice_param { slice_point: 4 } }
      layer { name: "d" type: "Concat" bottom: "c2" bottom: "c1" top: "d" }
      layer { name: "e" type: "Reorg" bottom: "d" top: "e" reorg_param { stride: 2 } }
      layer { name: "f" type: "Pad" bottom: "e" top: "f" pad_param { pad: 1 mode: REPLICATE } }
      layer { name: "r" type: "Reduction" bottom: "f" top: "loss" loss_weight: 1 })");
  Session session(plan, Weights::Make(*plan, 1), ExecContext(2));
  for (int64_t batch : {4, 1, 3}) {
    session.Reshape("x", Shape{batch, 8, 4, 6});
    FillInput(&session, "x", static_cast<uint64_t>(batch));
    EXPECT_TRUE(std::isfinite(session.Forward()));
    EXPECT_EQ(session.Data("f").shape(), Shape({batch, 32, 4, 5}));
    session.Backward();
    // Each element is in f once, and up to 8 more times in the border.
    double sum = 0;
    for (float dx : ValuesOf(session.Gradient("x"))) sum += dx;
    EXPECT_EQ(sum, static_cast<double>(batch * 32 * 4 * 5));
  }
}

}  // namespace
}  // namespace crema::test
