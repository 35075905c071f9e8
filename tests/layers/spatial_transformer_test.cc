// SpatialTransformer against its formula, written as plain loops.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "layers/hard_places.h"
#include "support/layer_expect.h"

namespace crema::test {
namespace {

constexpr int kImageHeight = 5, kImageWidth = 6;

Values Maps(int channels) {
  Values x;
  for (int i = 0; i < channels * kImageHeight * kImageWidth; ++i) {
    x.push_back((i * 29 % 37) / 8.0 - 2);
  }
  return x;
}

TEST(SpatialTransformerTest, SamplesAtTheTransformedPlaces) {
  const Values x = Maps(1);
  const Values theta = {0.7, -0.2, 0.15, 0.3, 0.9, -0.25};
  const int out_height = 4, out_width = 3;
  Values expected;
  for (int i = 0; i < out_height; ++i) {
    for (int j = 0; j < out_width; ++j) {
      const double p = 2.0 * i / out_height - 1, q = 2.0 * j / out_width - 1;
      const double row = (theta[0] * p + theta[1] * q + theta[2] + 1) / 2 * kImageHeight;
      const double column = (theta[3] * p + theta[4] * q + theta[5] + 1) / 2 * kImageWidth;
      double sum = 0;
      for (int m = 0; m < kImageHeight; ++m) {
        for (int k = 0; k < kImageWidth; ++k) {
          sum += x[static_cast<size_t>(m * kImageWidth + k)] *
                 std::max(0.0, 1 - std::abs(row - m)) * std::max(0.0, 1 - std::abs(column - k));
        }
      }
      expected.push_back(sum);
    }
  }
  const Blob map{{1, 1, kImageHeight, kImageWidth}, x};
  const std::string size = "output_H: 4 output_W: 3 ";
  ExpectNear(CallBuiltin("SpatialTransformer", {.prototxt = "st_param { " + size + "}",
                                                .inputs = {map, {{1, 6}, theta}},
                                                .dtype = DType::kF64})
                 .outputs[0],
             expected);
  // Numbers in the parameters leave those of the input.
  ExpectNear(CallBuiltin("SpatialTransformer",
                         {.prototxt = "st_param { " + size + "theta_1_2: -0.2 theta_2_3: -0.25 }",
                          .inputs = {map, {{1, 4}, {0.7, 0.15, 0.3, 0.9}}},
                          .dtype = DType::kF64})
                 .outputs[0],
             expected);
}

TEST(SpatialTransformerTest, TheIdentityChangesNothing) {
  const Values x = Maps(2);
  ExpectNear(CallBuiltin("SpatialTransformer", {.inputs = {{{1, 2, kImageHeight, kImageWidth}, x},
                                                           {{1, 6}, {1, 0, 0, 0, 1, 0}}}})
                 .outputs[0],
             x);
}

TEST(SpatialTransformerTest, StaysInBoundsForAllTransformations) {
  ExpectInBounds("SpatialTransformer", 1, HardPlaces());
}

}  // namespace
}  // namespace crema::test
