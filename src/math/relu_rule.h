// The rule of leaky ReLU, for numbers on the CPU and the GPU and for vectors of the compiler.
#pragma once

#include <limits>

#include "core/host_device.h"

namespace crema {

// The largest factor of a slope. 0 times infinity is NaN, but a ReLU with slope 0 gives 0.
template <typename T>
CREMA_HOST_DEVICE constexpr T LargestFactor(T slope) {
  return slope == 0 ? std::numeric_limits<T>::max() : std::numeric_limits<T>::infinity();
}

// x = x > 0 ? x : slope * x. NaN stays NaN. V is T or a vector of T.
template <typename T, typename V>
[[gnu::always_inline]] CREMA_HOST_DEVICE inline void ApplyRelu(T slope, V* x) {
  const V low = V{} - LargestFactor(slope);
  const V bounded = *x < low ? low : *x;
  *x = *x > 0 ? *x : slope * bounded;
}

// dy = y > 0 ? dy : slope * dy. NaN stays NaN.
template <typename T, typename V>
[[gnu::always_inline]] CREMA_HOST_DEVICE inline void MaskByRelu(T slope, const V& y, V* dy) {
  const V high = V{} + LargestFactor(slope);
  const V bounded = *dy < -high ? -high : *dy;
  *dy = y > 0 ? *dy : slope * (bounded > high ? high : bounded);
}

}  // namespace crema
