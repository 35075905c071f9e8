// PSROIAlign and DeformablePSROIPooling against their formulas, written as plain loops.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "layers/hard_places.h"
#include "support/layer_expect.h"

namespace crema::test {
namespace {

// The value of a plane between its elements.
double Between(const double* plane, int height, int width, double y, double x) {
  y = std::clamp(y, 0.0, height - 1.0);
  x = std::clamp(x, 0.0, width - 1.0);
  double sum = 0;
  for (int i = 0; i < height; ++i) {
    for (int j = 0; j < width; ++j) {
      sum += plane[i * width + j] * std::max(0.0, 1 - std::abs(y - i)) *
             std::max(0.0, 1 - std::abs(x - j));
    }
  }
  return sum;
}

constexpr int kMapHeight = 5, kMapWidth = 6;

Values ScoreMaps(int channels) {
  Values x;
  for (int i = 0; i < channels * kMapHeight * kMapWidth; ++i) x.push_back((i * 29 % 37) / 8.0 - 2);
  return x;
}

TEST(PSROIAlignTest, IsTheMeanOfClippedSamples) {
  const Values x = ScoreMaps(8);
  const Values regions = {0, 1, 2, 9, 7, 0, -3.3, -2.1, 4.4, 20};
  const int n = 3;
  const double scale = 0.6;
  Values expected;
  for (int r = 0; r < 2; ++r) {
    for (int c = 0; c < 2; ++c) {
      for (int bin = 0; bin < 4; ++bin) {
        const double* region = &regions[static_cast<size_t>(5 * r + 1)];
        double sum = 0;
        double at[2][3];
        bool counts[2][3];
        for (int axis = 0; axis < 2; ++axis) {  // rows, columns
          const double start = region[1 - axis] * scale;
          const double size = std::max((region[3 - axis] + 1) * scale - start, 0.1) / 2;
          const int b = axis == 0 ? bin / 2 : bin % 2,
                    last = (axis == 0 ? kMapHeight : kMapWidth) - 1;
          const double from = std::clamp(start + b * size, 0.0, double(last));
          const double to = std::clamp(start + (b + 1) * size, 0.0, double(last));
          for (int k = 0; k < n; ++k) {
            at[axis][k] = from + (k + 1) * size / (n + 1);
            counts[axis][k] = at[axis][k] < to;
          }
        }
        const double* plane = x.data() + (c * 4 + bin) * kMapHeight * kMapWidth;
        for (int i = 0; i < n; ++i) {
          for (int j = 0; j < n; ++j) {
            if (counts[0][i] && counts[1][j]) {
              sum += Between(plane, kMapHeight, kMapWidth, at[0][i], at[1][j]);
            }
          }
        }
        expected.push_back(sum / (n * n));
      }
    }
  }
  const RunResult result =
      CallBuiltin("PSROIAlign",
                  {.prototxt = "psroi_align_param { spatial_scale: 0.6 output_dim: 2 group_size: 2 "
                               "sample_num: 3 }",
                   .inputs = {{{1, 8, kMapHeight, kMapWidth}, x}, {{2, 5}, regions}},
                   .dtype = DType::kF64});
  ExpectNear(result.outputs[0], expected);
}

TEST(DeformablePSROIPoolingTest, MovesBinsByPartsOfTheRegion) {
  const Values x = ScoreMaps(8);
  const Values regions = {0, 1.4, 2, 7.6, 6, 0, -3, -2, 4, 9};
  Values offsets;  // 2 regions, 2 classes of x and y, 2 x 2 parts
  for (int i = 0; i < 2 * 4 * 4; ++i) offsets.push_back((i * 7 % 9 - 4) / 2.0);
  const int bins = 3, n = 2;
  const double scale = 0.5, factor = 0.3;
  Values expected;
  for (int r = 0; r < 2; ++r) {
    for (int c = 0; c < 2; ++c) {  // one class for each channel
      for (int i = 0; i < bins; ++i) {
        for (int j = 0; j < bins; ++j) {
          const double* region = &regions[static_cast<size_t>(5 * r + 1)];
          const int part = i * 2 / bins * 2 + j * 2 / bins;
          const double* moved = &offsets[static_cast<size_t>((r * 2 + c) * 8)];
          const double left = std::round(region[0]) * scale - 0.5;
          const double top = std::round(region[1]) * scale - 0.5;
          const double wide = std::max((std::round(region[2]) + 1) * scale - 0.5 - left, 0.1);
          const double high = std::max((std::round(region[3]) + 1) * scale - 0.5 - top, 0.1);
          const double x0 = left + j * wide / bins + moved[part] * factor * wide;
          const double y0 = top + i * high / bins + moved[4 + part] * factor * high;
          const int cell = (i * 2 / bins) * 2 + j * 2 / bins;
          const double* plane = x.data() + (c * 4 + cell) * kMapHeight * kMapWidth;
          double sum = 0;
          int count = 0;
          for (int k = 0; k < n * n; ++k) {
            const double sy = y0 + k / n * high / bins / n, sx = x0 + k % n * wide / bins / n;
            if (sy < -0.5 || sy > kMapHeight - 0.5 || sx < -0.5 || sx > kMapWidth - 0.5) continue;
            sum += Between(plane, kMapHeight, kMapWidth, sy, sx);
            ++count;
          }
          expected.push_back(count == 0 ? 0 : sum / count);
        }
      }
    }
  }
  const RunResult result = CallBuiltin(
      "DeformablePSROIPooling",
      {.prototxt =
           "deformable_psroi_pooling_param { spatial_scale: 0.5 output_dim: 2 group_size: 2 "
           "pooled_size: 3 part_size: 2 sample_per_part: 2 trans_std: 0.3 }",
       .inputs = {{{1, 8, kMapHeight, kMapWidth}, x}, {{2, 5}, regions}, {{2, 4, 2, 2}, offsets}},
       .dtype = DType::kF64});
  ExpectNear(result.outputs[0], expected);
}

TEST(PositionSensitiveTest, StaysInBoundsForAllRegionsAndOffsets) {
  ExpectInBounds("DeformablePSROIPooling", 2, HardPlaces());
  // Corners that are about as far away as they may be, and reversed.
  const Values corners = {1, 6e5, -6e5, -6e5, 6e5};
  ExpectInBounds("PSROIAlign", 1, corners);
  ExpectInBounds("DeformablePSROIPooling", 1, corners);
}

TEST(PositionSensitiveTest, RegionsThatAreNoNumbersAreErrors) {
  for (const char* type : {"PSROIAlign", "DeformablePSROIPooling"}) {
    const std::string fields = " { spatial_scale: 1 output_dim: 1 group_size: 1 ";
    const std::string prototxt =
        std::string(type) == "PSROIAlign"
            ? "psroi_align_param" + fields + "}"
            : "deformable_psroi_pooling_param" + fields + "no_trans: true }";
    ExpectContains(ErrorOf(type, {.prototxt = prototxt,
                                  .inputs = {{{1, 1, 2, 2}, {1, 2, 3, 4}},
                                             {{1, 5}, {0, std::nan(""), 0, 1, 1}}}}),
                   "region 0 has a corner");
    ExpectContains(
        ErrorOf(type, {.prototxt = prototxt,
                       .inputs = {{{1, 1, 2, 2}, {1, 2, 3, 4}}, {{1, 5}, {1, 0, 0, 1, 1}}}}),
        "image 1");
  }
}

}  // namespace
}  // namespace crema::test
