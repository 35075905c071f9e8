// Hand-computed values of resizing and unpooling, and plain formulas.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/error.h"
#include "crema.pb.h"
#include "support/layer_expect.h"
#include "support/layer_fixture.h"
#include "support/net.h"

namespace crema::test {
namespace {

using test::ExpectClose;

RunResult CallWith(const char* type, const std::string& prototxt, std::vector<Blob> inputs,
                   std::vector<Values> output_grads = {}) {
  return CallLayer(
      *TestRegistry().Find(type),
      {.prototxt = prototxt, .inputs = std::move(inputs), .output_grads = std::move(output_grads)});
}

Blob Line(const Values& values) { return {{1, 1, 1, static_cast<int64_t>(values.size())}, values}; }

TEST(InterpTest, CornersLieOnCorners) {
  // 2 x 2 zoomed by 2 is 3 x 3.
  const Blob square{{1, 1, 2, 2}, {0, 2, 4, 6}};
  ExpectClose(CallWith("Interp", "interp_param { zoom_factor: 2 }", {square}).outputs[0],
              {0, 1, 2, 2, 3, 4, 4, 5, 6});
  // Shrunk by 2, every other pixel is left.
  ExpectClose(
      CallWith("Interp", "interp_param { shrink_factor: 2 }", {Line({1, 5, 2, 7, 3})}).outputs[0],
      {1, 2, 3});
  ExpectClose(
      CallWith("Interp", "interp_param { height: 1 width: 4 }", {Line({0, 1, 2})}).outputs[0],
      {0, 2.0 / 3, 4.0 / 3, 2});
}

TEST(InterpTest, OnePixelIsTheFirstOne) {
  const RunResult result =
      CallWith("Interp", "interp_param { height: 1 width: 1 }", {Line({4, 1, 2})}, {{3}});
  ExpectClose(result.outputs[0], {4});
  ExpectClose(result.input_grads[0], {3, 0, 0});
}

TEST(InterpTest, NegativePaddingCutsOff) {
  const Blob square{{1, 1, 3, 4}, {0, 0, 0, 0, 0, 5, 7, 0, 0, 0, 0, 0}};
  const RunResult result = CallWith(
      "Interp", "interp_param { zoom_factor: 2 pad_beg: -1 pad_end: -1 }", {square}, {{1, 2, 4}});
  ExpectClose(result.outputs[0], {5, 6, 7});
  ExpectClose(result.input_grads[0], {0, 0, 0, 0, 0, 2, 5, 0, 0, 0, 0, 0});
}

TEST(InterpTest, ReferenceGivesTheSize) {
  const Blob reference{{1, 1, 1, 5}, Values(5, 0.0)};
  ExpectClose(CallWith("Interp", "", {Line({0, 2}), reference}).outputs[0], {0, 0.5, 1, 1.5, 2});
}

TEST(ResizeTest, PixelsAsAreas) {
  const auto resize = [](const std::string& fields, const Values& values) {
    return CallWith("Resize", "resize_param { height: 1 " + fields + " }", {Line(values)})
        .outputs[0];
  };
  // Output centres at -0.25, 0.25, 0.75, 1.25: the border is repeated.
  ExpectClose(resize("width: 4", {0, 4}), {0, 1, 3, 4});
  ExpectClose(resize("width: 2", {1, 3, 5, 7}), {2, 6});
  ExpectClose(resize("width: 3 align_corners: true", {0, 4}), {0, 2, 4});
  ExpectClose(resize("width: 4 interpolation: NEAREST", {3, 9}), {3, 3, 9, 9});
  ExpectClose(resize("width: 2 interpolation: NEAREST", {1, 2, 3, 4, 5, 6}), {2, 5});
  ExpectClose(resize("width: 3 interpolation: NEAREST align_corners: true", {1, 2, 3, 4, 5}),
              {1, 3, 5});
  // Keys' kernel at 0.25: -0.10546875, 0.87890625, 0.26171875, -0.03515625.
  const Values cubic = resize("width: 4 interpolation: CUBIC", {0, 4});
  EXPECT_NEAR(cubic[1], 4 * (0.26171875 - 0.03515625), 1e-5);
  EXPECT_NEAR(cubic[0] + cubic[3], 4, 1e-5);
  // Between 3 and 4, at 3.75, from 2, 3, 4 and 5 with those weights in reverse.
  const Values line = resize("width: 18 interpolation: CUBIC", {0, 1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_NEAR(line[8], 3.703125, 1e-5);
}

TEST(ResizeTest, FactorsRoundDownButNotTooFar) {
  const auto width = [](const std::string& scale, int64_t in) {
    const LayerSample sample{.name = "x",
                             .prototxt = "resize_param { height: 1 width_scale: " + scale + " }",
                             .inputs = {{.shape = {1, 1, 1, in}}}};
    return LayerCase(*TestRegistry().Find("Resize"), sample, DType::kF32)
        .info()
        .outputs[0]
        .shape[3];
  };
  EXPECT_EQ(width("1.5", 5), 7);
  EXPECT_EQ(width("1.1", 10), 11);
  EXPECT_EQ(width("0.1", 30), 3);
}

TEST(UpsampleTest, NearestRepeatsPixels) {
  const RunResult result = CallWith("Upsample", "upsample_param { scale: 2 }",
                                    {{{1, 1, 1, 2}, {1, 2}}}, {{1, 2, 3, 4, 5, 6, 7, 8}});
  ExpectClose(result.outputs[0], {1, 1, 2, 2, 1, 1, 2, 2});
  ExpectClose(result.input_grads[0], {14, 22});
}

TEST(UpsampleTest, UndoesMaxPooling) {
  const auto plan = PlanText(R"(
      force_backward: true
      layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 dim: 5 dim: 6 } } }
      layer { name: "p" type: "Pooling" bottom: "x" top: "p" top: "m" pooling_param { kernel_size: 2 stride: 2 } }
      layer { name: "u" type: "Upsample" bottom: "p" bottom: "m" top: "u" upsample_param { scale: 2 pad_out_h: true } }
      layer { name: "r" type: "Reduction" bottom: "u" top: "loss" loss_weight: 1 })",
                             TRAIN, {.optimize = false});
  Session session(plan, Weights::Make(*plan, 1), ExecContext(1));
  FillInput(&session, "x", 3);
  session.Forward();
  session.Backward();
  const std::vector<float> x = ValuesOf(session.Data("x"));
  const std::vector<float> u = ValuesOf(session.Data("u"));
  const std::vector<float> dx = ValuesOf(session.Gradient("x"));
  ASSERT_EQ(u.size(), x.size());
  int kept = 0;
  for (size_t i = 0; i < u.size(); ++i) {
    EXPECT_TRUE(u[i] == 0 || u[i] == x[i]);
    EXPECT_EQ(dx[i], u[i] == 0 ? 0.0F : 1.0F);
    kept += u[i] != 0 ? 1 : 0;
  }
  EXPECT_EQ(kept, 2 * 3 * 3 * 3);
}

TEST(UpsampleTest, OfTwoValuesForOnePlaceTheLastCounts) {
  const RunResult result = CallWith("Upsample", "upsample_param { scale: 2 }",
                                    {{{1, 1, 1, 3}, {5, 6, 7}}, {{1, 1, 1, 3}, {4, 4, -1}}},
                                    {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}});
  ExpectClose(result.outputs[0], {0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0});
  ExpectClose(result.input_grads[0], {0, 4, 0});
}

TEST(UpsampleTest, AMaskThatIsNoPlaceIsRefused) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (double mask : {4.0, -2.0, 0.5, 1e30, nan}) {
    const std::vector<Blob> inputs = {{{1, 1, 1, 1}, {5}}, {{1, 1, 1, 1}, {mask}}};
    EXPECT_THROW(CallWith("Upsample", "upsample_param { scale: 2 }", inputs), Error) << mask;
    EXPECT_THROW(CallWith("UnPooling", "unpooling_param { kernel_size: 2 }", inputs), Error)
        << mask;
  }
}

TEST(UnPoolingTest, SpreadsOrRepeats) {
  const Blob line = Line({2, 4});
  const std::string window = "kernel_h: 1 kernel_w: 3 stride_h: 1 stride_w: 2 }";
  const RunResult average =
      CallWith("UnPooling", "unpooling_param { unpool: AVE " + window, {line}, {{1, 2, 3, 4, 5}});
  ExpectClose(average.outputs[0], {2 / 3.0, 2 / 3.0, 2, 4 / 3.0, 4 / 3.0});
  ExpectClose(average.input_grads[0], {2, 4});
  const RunResult tile =
      CallWith("UnPooling", "unpooling_param { unpool: TILE " + window, {line}, {{1, 2, 3, 4, 5}});
  ExpectClose(tile.outputs[0], {2, 2, 6, 4, 4});
  ExpectClose(tile.input_grads[0], {6, 12});
}

TEST(UnPoolingTest, MaxFollowsTheMask) {
  const RunResult result =
      CallWith("UnPooling", "unpooling_param { kernel_size: 2 stride: 2 }",
               {{{1, 1, 1, 2}, {5, 6}}, {{1, 1, 1, 2}, {4, 3}}}, {{0, 1, 2, 3, 4, 5, 6, 7}});
  ExpectClose(result.outputs[0], {0, 0, 0, 6, 5, 0, 0, 0});
  ExpectClose(result.input_grads[0], {4, 3});
}

}  // namespace
}  // namespace crema::test
