// Input elements and weights of one output of resampling, along one axis.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/host_device.h"
#include "layers/sampling/resample.h"

namespace crema {

inline int TapCount(Interpolation interpolation) {
  if (interpolation == Interpolation::kNearest) return 1;
  return interpolation == Interpolation::kLinear ? 2 : 4;
}

// Returns the position of output `o` in the input, in elements from the start of the sampled part.
CREMA_HOST_DEVICE inline double SamplePlace(const SampledAxis& axis, bool align_corners,
                                            int64_t o) {
  const auto position = static_cast<double>(o);
  if (align_corners) {
    if (axis.out <= 1) return 0;
    return position * static_cast<double>(axis.length - 1) / static_cast<double>(axis.out - 1);
  }
  return (position + 0.5) * static_cast<double>(axis.length) / static_cast<double>(axis.out) - 0.5;
}

// Returns the weight at distance d of Keys' cubic with a = -0.75.
CREMA_HOST_DEVICE inline double CubicWeight(double d) {
  constexpr double a = -0.75;
  d = std::fabs(d);
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
}

// The element at or before an output's position, and the distance from it.
struct SampleBase {
  double base;
  double fraction;
};
CREMA_HOST_DEVICE inline SampleBase SampleBaseOf(const Sampling& s, const SampledAxis& axis,
                                                 int64_t o) {
  const double place = SamplePlace(axis, s.align_corners, o);
  // Nearest: a tie takes the later element.
  const bool nearest = s.interpolation == Interpolation::kNearest;
  const double base = std::floor(nearest ? place + 0.5 : place);
  return {base, place - base};
}

struct SampleTap {
  int64_t index;  // index in the whole input
  double weight;
};
// Returns tap `t` of `count`.
CREMA_HOST_DEVICE inline SampleTap SampleTapOf(const SampledAxis& axis, int count,
                                               const SampleBase& base, int t) {
  const int offset = count == 4 ? t - 1 : t;
  int64_t source = static_cast<int64_t>(base.base) + offset;
  if (source > axis.length - 1) source = axis.length - 1;
  if (source < 0) source = 0;
  double weight = 1;
  if (count == 2) weight = t == 0 ? 1 - base.fraction : base.fraction;
  if (count == 4) weight = CubicWeight(base.fraction - offset);
  return {axis.start + source, weight};
}

}  // namespace crema
