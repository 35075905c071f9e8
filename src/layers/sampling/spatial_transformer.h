// SpatialTransformer: the points that it samples. See spatial_transformer.cc.
#pragma once

#include <cstdint>

#include "crema.pb.h"
#include "layers/sampling/grid_sample.h"

namespace crema {

// The six numbers of a transformation: those of st_param, and the others from the input.
struct AffineNumbers {
  explicit AffineNumbers(const SpatialTransformerParameter& p)
      : fixed{p.theta_1_1(), p.theta_1_2(), p.theta_1_3(),
              p.theta_2_1(), p.theta_2_2(), p.theta_2_3()} {
    const bool is_fixed[] = {p.has_theta_1_1(), p.has_theta_1_2(), p.has_theta_1_3(),
                             p.has_theta_2_1(), p.has_theta_2_2(), p.has_theta_2_3()};
    for (int i = 0; i < 6; ++i) {
      if (!is_fixed[i]) number[given++] = i;
    }
  }

  double fixed[6];
  int given = 0;    // by the input
  int number[6]{};  // which numbers these are
};

// Each output element is a point. Coordinates of the output and of x run from -1, the first
// element, to 1, one element after the last.
template <typename T>
struct AffinePoints {
  AffinePoints(const Layer& layer, const Shape& x, const Shape& y, const T* input)
      : s(x[0], x[1], x[2], x[3], y[2] * y[3]),
        height(y[2]),
        width(y[3]),
        numbers(layer.param().st_param()),
        theta(input) {}

  CREMA_HOST_DEVICE GridTaps TapsAt(int64_t at) const {
    double all[6];
    for (int i = 0; i < 6; ++i) all[i] = numbers.fixed[i];
    const T* item = theta + at / s.out * numbers.given;
    for (int i = 0; i < numbers.given; ++i) all[numbers.number[i]] = AsDouble(item[i]);
    GridPlace places[GridTaps::kAxes] = {};
    for (int a = 0; a < 2; ++a) {
      double sum = all[3 * a + 2];
      for (int i = 0; i < 2; ++i) sum += all[3 * a + i] * Coordinate(at, i);
      const double half = static_cast<double>(s.size[a]) / 2;
      places[a] = s.Near(a, {(sum + 1) * half, half});
    }
    return s.TapsOf(places);
  }

  // Returns the row (0) or the column (1) of a point; 1 for others.
  CREMA_HOST_DEVICE double Coordinate(int64_t at, int which) const {
    const int64_t o = at % s.out;
    if (which == 0) return 2 * static_cast<double>(o / width) / static_cast<double>(height) - 1;
    if (which == 1) return 2 * static_cast<double>(o % width) / static_cast<double>(width) - 1;
    return 1;
  }

  // Returns the part of point `at` in the derivative by number i of the input. `slopes` holds those
  // of the point by column and row.
  template <typename R>
  CREMA_HOST_DEVICE double Slope(const R* slopes, int64_t at, int64_t i) const {
    const int number = numbers.number[i];
    return static_cast<double>(slopes[2 * at + 1 - number / 3]) * Coordinate(at, number % 3);
  }

  GridSampling s;
  int64_t height, width;  // of the output
  AffineNumbers numbers;
  const T* theta;
};

}  // namespace crema
