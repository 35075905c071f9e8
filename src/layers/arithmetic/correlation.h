// Correlation: its sizes and sums, for both devices. See correlation.cc.
#pragma once

#include <cstdint>

#include "graph/layer.h"
#include "layers/as_double.h"

namespace crema {

struct CorrelationSums {
  // Throws kInvalidArgument if the maps do not fit the parameters.
  CorrelationSums(const Layer& layer, const Shape& a, const Shape& b);

  Shape Output() const { return {images, side * side, out_height, out_width}; }

  // Returns the displacement of output channel d down or to the right.
  CREMA_HOST_DEVICE int64_t Down(int64_t d) const { return (d / side - side / 2) * stride2; }
  CREMA_HOST_DEVICE int64_t Across(int64_t d) const { return (d % side - side / 2) * stride2; }

  // Returns the first place of a patch along one axis, without the padding.
  CREMA_HOST_DEVICE int64_t First(int64_t out) const { return out * stride1 + displacement - pad; }

  // Returns an element of a plane; 0 outside.
  template <typename T>
  CREMA_HOST_DEVICE double At(const T* plane, int64_t row, int64_t column) const {
    const bool inside = row >= 0 && row < height && column >= 0 && column < width;
    return inside ? AsDouble(plane[row * width + column]) : 0;
  }

  CREMA_HOST_DEVICE double Compare(double a, double b) const {
    return !subtracts ? a * b : a < b ? b - a : a - b;
  }
  // Returns the derivative of Compare by `own`, for either of the maps.
  CREMA_HOST_DEVICE double Slope(double own, double other) const {
    if (!subtracts) return other;
    return own > other ? 1 : own < other ? -1 : 0;
  }

  // Returns element `i` of the output.
  template <typename T>
  CREMA_HOST_DEVICE double Value(const T* a, const T* b, int64_t i) const {
    const int64_t column = First(i % out_width), row = First(i / out_width % out_height);
    const int64_t d = i / out_width / out_height % (side * side);
    const int64_t plane = i / out_width / out_height / (side * side) * channels;
    double sum = 0;
    for (int64_t c = plane; c < plane + channels; ++c) {
      const T *of_a = a + c * height * width, *of_b = b + c * height * width;
      for (int64_t k = 0; k < kernel * kernel; ++k) {
        const int64_t y = row + k / kernel, x = column + k % kernel;
        sum += Compare(At(of_a, y, x), At(of_b, y + Down(d), x + Across(d)));
      }
    }
    return sum / Divisor();
  }

  // Returns the gradient of element `i` of a map: of the first, or of the second, which
  // displacements reach in the other direction.
  template <typename T>
  CREMA_HOST_DEVICE double Gradient(const T* own, const T* other, const T* dy, bool second,
                                    int64_t i) const {
    const int64_t column = i % width, row = i / width % height, c = i / width / height;
    const T* plane = other + c * height * width;
    const T* from = dy + c / channels * side * side * out_height * out_width;
    const double value = AsDouble(own[i]);
    double sum = 0;
    for (int64_t d = 0; d < side * side; ++d) {
      const int64_t down = second ? -Down(d) : Down(d), across = second ? -Across(d) : Across(d);
      // Of the patch in the first map.
      const int64_t y = second ? row + down : row, x = second ? column + across : column;
      const double weight = PatchSum(from + d * out_height * out_width, y, x);
      if (weight == 0) continue;
      sum += weight * Slope(value, At(plane, row + down, column + across));
    }
    return sum / Divisor();
  }

  int64_t images, channels, height, width;
  int64_t pad, kernel, displacement, stride1, stride2;
  int64_t side;  // displacements on one axis
  int64_t out_height, out_width;
  bool subtracts;

 private:
  CREMA_HOST_DEVICE double Divisor() const {
    return static_cast<double>(channels * kernel * kernel);
  }

  // Returns the sum of dy over the patches of the first map with a place.
  template <typename T>
  CREMA_HOST_DEVICE double PatchSum(const T* dy, int64_t row, int64_t column) const {
    double sum = 0;
    for (int64_t k = 0; k < kernel * kernel; ++k) {
      const int64_t y = row - k / kernel - First(0), x = column - k % kernel - First(0);
      if (y < 0 || x < 0 || y % stride1 != 0 || x % stride1 != 0) continue;
      if (y / stride1 >= out_height || x / stride1 >= out_width) continue;
      sum += AsDouble(dy[y / stride1 * out_width + x / stride1]);
    }
    return sum;
  }
};

}  // namespace crema
