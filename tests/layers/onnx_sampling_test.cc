// Resize, GridSample and NonMaxSuppression against the formulas of ONNX, written as plain loops,
// and its moves between depth and space as other layers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/strings.h"
#include "support/layer_expect.h"

namespace crema::test {
namespace {

struct Rule {
  std::string coordinates = "HALF_PIXEL";
  std::string interpolation = "LINEAR";
  std::string nearest = "ROUND_PREFER_CEIL";
  double scale = 1;
  int64_t out = 0;
  bool exclude = false, antialias = false;
  double start = 0, end = 1;  // of the roi
};

double PositionOf(const Rule& r, int64_t in, int64_t o) {
  const double n = static_cast<double>(in), x = static_cast<double>(o), wide = r.scale * n;
  if (r.coordinates == "ASYMMETRIC") return x / r.scale;
  if (r.coordinates == "ALIGN_CORNERS") return wide == 1 ? 0 : x * (n - 1) / (wide - 1);
  if (r.coordinates == "TF_CROP_AND_RESIZE") {
    if (r.out == 1) return (r.start + r.end) * (n - 1) / 2;
    return r.start * (n - 1) + x * (r.end - r.start) * (n - 1) / (wide - 1);
  }
  if (r.coordinates == "PYTORCH_HALF_PIXEL" && r.out == 1) return 0;
  const double half = (x + 0.5) / r.scale - 0.5;
  if (r.coordinates != "HALF_PIXEL_SYMMETRIC") return half;
  return half + n / 2 * (1 - static_cast<double>(r.out) / wide);
}

double KernelAt(const Rule& r, double d) {
  d = std::abs(d);
  if (r.interpolation == "LINEAR") return std::max(0.0, 1 - d);
  const double a = -0.75;
  if (d <= 1) return (a + 2) * d * d * d - (a + 3) * d * d + 1;
  return d < 2 ? a * d * d * d - 5 * a * d * d + 8 * a * d - 4 * a : 0;
}

// One output: every input element weighs what the kernel says; those beyond the border are copies.
double ResizedAt(const Rule& r, const Values& x, int64_t o) {
  const auto in = static_cast<int64_t>(x.size());
  const auto element = [&](int64_t i) {
    return x[static_cast<size_t>(std::clamp<int64_t>(i, 0, in - 1))];
  };
  const double place = PositionOf(r, in, o);
  if (r.coordinates == "TF_CROP_AND_RESIZE" && (place < 0 || place > double(in - 1))) return -9;
  if (r.interpolation == "NEAREST") {
    const double floor = std::floor(place), part = place - floor;
    const bool up = r.nearest == "CEIL"                ? part > 0
                    : r.nearest == "FLOOR"             ? false
                    : r.nearest == "ROUND_PREFER_CEIL" ? part >= 0.5
                                                       : part > 0.5;
    return element(static_cast<int64_t>(floor) + (up ? 1 : 0));
  }
  const double narrow = r.antialias ? std::min(1.0, r.scale) : 1;
  double sum = 0, weights = 0;
  for (int64_t i = -4 * in - 8; i < 5 * in + 8; ++i) {
    if (r.exclude && (i < 0 || i >= in)) continue;
    const double weight = KernelAt(r, (static_cast<double>(i) - place) * narrow);
    sum += weight * element(i);
    weights += weight;
  }
  return sum / weights;
}

// Resizes one axis with each rule, alone and as the first and the last of three.
void ExpectResized(const Rule& r, bool by_scale) {
  Values x;
  const int64_t in = 7;
  for (int64_t i = 0; i < in; ++i) x.push_back(static_cast<double>(i * 5 % 7) - 0.3 * double(i));
  Values expected;
  for (int64_t o = 0; o < r.out; ++o) expected.push_back(ResizedAt(r, x, o));
  std::string fields = StrCat("coordinates: ", r.coordinates, " interpolation: ", r.interpolation,
                              " nearest_mode: ", r.nearest, " exclude_outside: ", r.exclude,
                              " antialias: ", r.antialias, " extrapolation_value: -9");
  if (r.coordinates == "TF_CROP_AND_RESIZE") {
    fields += StrCat(" roi: ", r.start, " roi: ", r.end);
  }
  fields += by_scale ? StrCat(" scale: ", r.scale) : StrCat(" size: ", r.out);
  const auto call = [&](int axis, const std::vector<int64_t>& shape) {
    return CallBuiltin("Resize",
                       {.prototxt = StrCat("resize_param { axes: ", axis, " ", fields, " }"),
                        .inputs = {{shape, x}},
                        .dtype = DType::kF64})
        .outputs[0];
  };
  SCOPED_TRACE(fields);
  ExpectNear(call(0, {in}), expected, 1e-5);
  ExpectNear(call(1, {1, in, 1}), expected, 1e-5);
}

TEST(ResizeTest, ComputesAllModesOfOnnx) {
  for (const char* coordinates : {"HALF_PIXEL", "PYTORCH_HALF_PIXEL", "ALIGN_CORNERS", "ASYMMETRIC",
                                  "HALF_PIXEL_SYMMETRIC", "TF_CROP_AND_RESIZE"}) {
    for (const int64_t out : {1, 2, 3, 7, 12}) {
      Rule rule{.coordinates = coordinates, .scale = static_cast<double>(out) / 7, .out = out};
      if (rule.coordinates == "TF_CROP_AND_RESIZE") {
        rule.start = -0.25;
        rule.end = 1.125;
      }
      for (const char* interpolation : {"LINEAR", "CUBIC"}) {
        rule.interpolation = interpolation;
        for (const bool exclude : {false, true}) {
          for (const bool antialias : {false, true}) {
            rule.exclude = exclude;
            rule.antialias = antialias;
            ExpectResized(rule, false);
          }
        }
      }
      rule.exclude = rule.antialias = false;
      rule.interpolation = "NEAREST";
      for (const char* nearest : {"ROUND_PREFER_CEIL", "ROUND_PREFER_FLOOR", "FLOOR", "CEIL"}) {
        rule.nearest = nearest;
        ExpectResized(rule, false);
      }
    }
  }
}

TEST(ResizeTest, UsesAGivenFactorItself) {
  for (const char* coordinates :
       {"HALF_PIXEL", "ALIGN_CORNERS", "ASYMMETRIC", "HALF_PIXEL_SYMMETRIC"}) {
    for (const double scale : {0.6, 1.1, 1.5, 2.3}) {
      Rule rule{.coordinates = coordinates,
                .scale = scale,
                .out = static_cast<int64_t>(std::floor(7 * scale + 1e-9))};
      ExpectResized(rule, true);
      rule.interpolation = "CUBIC";
      ExpectResized(rule, true);
    }
  }
}

// f32 cannot represent 0.6, but o / 0.6 for o = 3 is 5.
TEST(ResizeTest, TakesFactorsAsTheyAreWritten) {
  const RunResult result = CallBuiltin(
      "Resize", {.prototxt = "resize_param { scale: 0.6 coordinates: ASYMMETRIC interpolation: "
                             "NEAREST nearest_mode: FLOOR }",
                 .inputs = {{{10}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}}}});
  EXPECT_EQ(result.outputs[0], (Values{0, 1, 3, 5, 6, 8}));
}

TEST(ResizeTest, KeepsTheRatioOfTheSizes) {
  const auto shape = [](const std::string& policy) {
    const RunResult result = CallBuiltin(
        "Resize", {.prototxt = "resize_param { size: 7 size: 8 aspect_ratio: " + policy + " }",
                   .inputs = {{{2, 4}, Values(8, 1)}}});
    return result.outputs[0].size();
  };
  EXPECT_EQ(shape("NOT_LARGER"), 4U * 8U);    // by 2
  EXPECT_EQ(shape("NOT_SMALLER"), 7U * 14U);  // by 3.5
}

double Mirrored(double place, double least, double most) {
  while (place < least || place > most) {
    place = place < least ? 2 * least - place : 2 * most - place;
  }
  return place;
}

// The sample of a plane at (row, column), of all elements with the weights of the kernel.
double SampledAt(const Values& x, int64_t height, int64_t width, double gy, double gx,
                 const std::string& mode, const std::string& padding, bool corners) {
  const auto place = [&](double g, int64_t size) {
    const double n = static_cast<double>(size);
    double p = corners ? (g + 1) / 2 * (n - 1) : ((g + 1) * n - 1) / 2;
    if (mode == "NEAREST") p = std::nearbyint(p);
    const double least = corners ? 0 : -0.5, most = n - 1 - least;
    if (p >= least && p <= most) return p;
    if (padding == "BORDER") return std::clamp(p, 0.0, n - 1);
    return padding == "REFLECTION" ? Mirrored(p, least, most) : p;
  };
  const auto element = [&](int64_t i, int64_t size) -> int64_t {
    if (i >= 0 && i < size) return i;
    if (padding == "ZEROS") return -1;
    const double least = corners ? 0 : -0.5, most = static_cast<double>(size - 1) - least;
    if (padding == "BORDER") return std::clamp<int64_t>(i, 0, size - 1);
    return static_cast<int64_t>(Mirrored(static_cast<double>(i), least, most));
  };
  const double row = place(gy, height), column = place(gx, width);
  const Rule kernel{.interpolation = mode};
  const auto weight = [&](double d) {
    return mode == "NEAREST" ? double(std::abs(d) < 0.5) : KernelAt(kernel, d);
  };
  double sum = 0;
  for (int64_t i = -20; i < 20; ++i) {
    for (int64_t j = -20; j < 20; ++j) {
      const int64_t a = element(i, height), b = element(j, width);
      const double w = weight(static_cast<double>(i) - row) * weight(double(j) - column);
      if (w != 0 && a >= 0 && b >= 0) sum += w * x[static_cast<size_t>(a * width + b)];
    }
  }
  return sum;
}

TEST(GridSampleTest, ComputesAllModesOfOnnx) {
  constexpr int64_t kHeight = 3, kWidth = 4, kPoints = 9;
  Values x, grid;
  for (int64_t i = 0; i < kHeight * kWidth; ++i) x.push_back(double(i * 7 % 12) - 4);
  for (int64_t p = 0; p < kPoints; ++p) {
    grid.push_back(-1.6 + 0.41 * double(p));  // columns first
    grid.push_back(1.7 - 0.37 * double(p));
  }
  for (const char* mode : {"LINEAR", "NEAREST", "CUBIC"}) {
    for (const char* padding : {"ZEROS", "BORDER", "REFLECTION"}) {
      for (const bool corners : {false, true}) {
        Values expected;
        for (size_t p = 0; p < kPoints; ++p) {
          expected.push_back(
              SampledAt(x, kHeight, kWidth, grid[2 * p + 1], grid[2 * p], mode, padding, corners));
        }
        const RunResult result = CallBuiltin(
            "GridSample",
            {.prototxt = StrCat("grid_sample_param { interpolation: ", mode, " padding: ", padding,
                                " align_corners: ", corners, " }"),
             .inputs = {{{1, 1, kHeight, kWidth}, x}, {{1, kPoints, 1, 2}, grid}},
             .dtype = DType::kF64});
        SCOPED_TRACE(StrCat(mode, " ", padding, " ", corners));
        ExpectNear(result.outputs[0], expected, 1e-9);
      }
    }
  }
}

TEST(NonMaxSuppressionTest, DropsWhatOverlapsABetterBox) {
  // Boxes 0, 1 and 2 overlap each other, as do 3 and 4; 5 is alone. Corners in any order.
  const Values boxes = {0, 0,  1, 1,  0, 0.1,  1, 1.1,  1,   0.9, 0,   -0.1,
                        0, 10, 1, 11, 0, 10.1, 1, 11.1, 101, 101, 100, 100};
  const auto rows = [&](const std::string& fields, const Values& given, Values scores) {
    return CallBuiltin("NonMaxSuppression",
                       {.prototxt = "non_max_suppression_param { " + fields + " }",
                        .inputs = {{{1, 6, 4}, given}, {{1, 1, 6}, std::move(scores)}}})
        .outputs[0];
  };
  const Values scores = {0.9, 0.75, 0.6, 0.95, 0.5, 0.3};
  EXPECT_EQ(rows("iou_threshold: 0.5", boxes, scores), (Values{0, 0, 3, 0, 0, 0, 0, 0, 5}));
  EXPECT_EQ(rows("iou_threshold: 0.5 max_output_boxes_per_class: 2", boxes, scores),
            (Values{0, 0, 3, 0, 0, 0}));
  EXPECT_EQ(rows("iou_threshold: 0.5 score_threshold: 0.4", boxes, scores),
            (Values{0, 0, 3, 0, 0, 0}));
  EXPECT_EQ(rows("max_output_boxes_per_class: 0", boxes, scores), Values{});
  EXPECT_EQ(rows("iou_threshold: 1", boxes, scores).size(), 18U);
  Values centers;
  for (size_t b = 0; b < 6; ++b) {
    const double* v = boxes.data() + 4 * b;
    centers.insert(centers.end(), {(v[1] + v[3]) / 2, (v[0] + v[2]) / 2, std::abs(v[3] - v[1]),
                                   std::abs(v[2] - v[0])});
  }
  EXPECT_EQ(rows("iou_threshold: 0.5 center_point_box: true", centers, scores),
            (Values{0, 0, 3, 0, 0, 0, 0, 0, 5}));
}

// Runs a chain of layers of one input on f32 values.
Values RunChain(const std::vector<std::string>& layers, const std::vector<int64_t>& shape,
                const Values& values) {
  std::string text = "layer { name: 'x' type: 'Input' top: 'x' input_param { shape {";
  for (const int64_t d : shape) text += StrCat(" dim: ", d);
  text += " } } }\n";
  std::string bottom = "x";
  for (size_t k = 0; k < layers.size(); ++k) {
    const std::string top = StrCat("y", k);
    text += StrCat("layer { name: '", top, "' bottom: '", bottom, "' top: '", top, "' ", layers[k],
                   " }\n");
    bottom = top;
  }
  const auto plan = PlanText(text, TEST);
  Session session(plan, Weights::Make(*plan, 1), ExecContext(1));
  std::ranges::copy(values, session.MutableData("x").span<float>().begin());
  session.Forward();
  const std::vector<float> y = ValuesOf(session.Data(bottom));
  return {y.begin(), y.end()};
}

// DepthToSpace and SpaceToDepth need no layers of their own.
TEST(DepthAndSpaceTest, AreOtherLayers) {
  constexpr int64_t kBatch = 2, kChannels = 3, kHeight = 2, kWidth = 5, kSide = 2;
  Values deep(static_cast<size_t>(kBatch * kChannels * kSide * kSide * kHeight * kWidth));
  for (size_t i = 0; i < deep.size(); ++i) deep[i] = static_cast<double>(i);
  Values dcr(deep.size()), crd(deep.size());
  for (int64_t n = 0; n < kBatch; ++n) {
    for (int64_t c = 0; c < kChannels; ++c) {
      for (int64_t i = 0; i < kHeight * kSide; ++i) {
        for (int64_t j = 0; j < kWidth * kSide; ++j) {
          const auto to =
              static_cast<size_t>(((n * kChannels + c) * kHeight * kSide + i) * kWidth * kSide + j);
          const int64_t block = i % kSide * kSide + j % kSide;
          const auto from = [&](int64_t channel) {
            return static_cast<double>(
                ((n * kChannels * kSide * kSide + channel) * kHeight + i / kSide) * kWidth +
                j / kSide);
          };
          dcr[to] = from(block * kChannels + c);
          crd[to] = from(c * kSide * kSide + block);
        }
      }
    }
  }
  const std::vector<int64_t> shape = {kBatch, kChannels * kSide * kSide, kHeight, kWidth};
  EXPECT_EQ(RunChain({"type: 'Reorg' reorg_param { stride: 2 reverse: true }"}, shape, deep), dcr);
  const auto reshape = [](int axis, int axes, const std::string& dims) {
    return StrCat("type: 'Reshape' reshape_param { axis: ", axis, " num_axes: ", axes, " shape { ",
                  dims, " } }");
  };
  const auto permute = [](const std::vector<int>& order) {
    std::string text = "type: 'Permute' permute_param {";
    for (const int axis : order) text += StrCat(" order: ", axis);
    return text + " }";
  };
  EXPECT_EQ(RunChain({reshape(1, 1, "dim: -1 dim: 2 dim: 2"), permute({0, 1, 4, 2, 5, 3}),
                      reshape(2, 2, "dim: -1"), reshape(3, 2, "dim: -1")},
                     shape, deep),
            crd);
  // SpaceToDepth undoes DCR.
  EXPECT_EQ(RunChain({reshape(3, 1, "dim: -1 dim: 2"), reshape(2, 1, "dim: -1 dim: 2"),
                      permute({0, 3, 5, 1, 2, 4}), reshape(1, 3, "dim: -1")},
                     {kBatch, kChannels, kHeight * kSide, kWidth * kSide}, dcr),
            deep);
}

}  // namespace
}  // namespace crema::test
