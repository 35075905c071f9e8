// Input elements and weights of one output of resampling, along one axis.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/host_device.h"
#include "layers/sampling/resample.h"

namespace crema {

// Returns the position of output `o` in the input, in elements from the start of the sampled part.
CREMA_HOST_DEVICE inline double SamplePlace(const SampledAxis& axis, int64_t o) {
  return (static_cast<double>(o) + axis.before) * axis.num / axis.den + axis.after;
}

// Returns the weight at distance d of Keys' cubic.
CREMA_HOST_DEVICE inline double CubicWeight(double a, double d) {
  d = std::fabs(d);
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

// Returns the nearest element. Factors are rounded to f32: positions so near to an element, or to
// the middle between two, lie there.
CREMA_HOST_DEVICE inline double NearestElement(NearestMode mode, double place) {
  const double half = std::floor(2 * place + 0.5) / 2;
  if (std::fabs(place - half) <= 2e-7 * (1 + std::fabs(place))) place = half;
  switch (mode) {
    case NearestMode::kPreferFloor:
      return std::ceil(place - 0.5);
    case NearestMode::kFloor:
      return std::floor(place);
    case NearestMode::kCeil:
      return std::ceil(place);
    default:
      return std::floor(place + 0.5);
  }
}

// The element at or before an output's position, and the distance from it.
struct SampleBase {
  double base;
  double fraction;
  bool outside;   // extrapolated: no weights
  bool excludes;  // no weights for elements outside
  double sum;     // all weights are divided by it
};

struct SampleTap {
  int64_t index;  // index in the whole input
  double weight;
};

// Returns the index, from the start of the sampled part and not limited to it, and the weight of
// tap `t` before division.
CREMA_HOST_DEVICE inline SampleTap RawTapOf(const Sampling& s, const SampledAxis& axis,
                                            const SampleBase& base, int t) {
  const int offset = axis.taps == 1 ? 0 : t - (axis.taps / 2 - 1);
  const int64_t source = static_cast<int64_t>(base.base) + offset;
  if (axis.taps == 1) return {source, 1};
  const double distance = (base.fraction - offset) * axis.narrowing;
  if (s.interpolation == SamplingMethod::kCubic) return {source, CubicWeight(s.cubic_a, distance)};
  if (axis.taps == 2) return {source, t == 0 ? 1 - base.fraction : base.fraction};
  const double weight = 1 - std::fabs(distance);
  return {source, weight > 0 ? weight : 0};
}

CREMA_HOST_DEVICE inline bool IsInside(const SampledAxis& axis, int64_t source) {
  return source >= 0 && source < axis.length;
}

CREMA_HOST_DEVICE inline SampleBase SampleBaseOf(const Sampling& s, const SampledAxis& axis,
                                                 int64_t o) {
  if (!axis.resampled) return {static_cast<double>(o), 0, false, false, 1};
  const double place = SamplePlace(axis, o);
  const auto last = static_cast<double>(axis.length - 1);
  if (axis.cuts && !(place >= 0 && place <= last)) return {0, 0, true, false, 1};
  const bool nearest = axis.taps == 1;
  const double at = nearest ? NearestElement(s.nearest, place) : std::floor(place);
  SampleBase base{at, place - at, false, s.exclude_outside && !nearest, 1};
  if (nearest || (!base.excludes && axis.narrowing >= 1)) return base;
  double inside = 0, all = 0;
  for (int t = 0; t < axis.taps; ++t) {
    const SampleTap tap = RawTapOf(s, axis, base, t);
    all += tap.weight;
    if (IsInside(axis, tap.index)) inside += tap.weight;
  }
  base.excludes = base.excludes && inside != 0;
  base.sum = base.excludes ? inside : all;
  return base;
}

// Returns tap `t` of axis.taps.
CREMA_HOST_DEVICE inline SampleTap SampleTapOf(const Sampling& s, const SampledAxis& axis,
                                               const SampleBase& base, int t) {
  if (base.outside) return {axis.start, 0};
  SampleTap tap = RawTapOf(s, axis, base, t);
  if (base.excludes && !IsInside(axis, tap.index)) tap.weight = 0;
  if (tap.index > axis.length - 1) tap.index = axis.length - 1;
  if (tap.index < 0) tap.index = 0;
  return {axis.start + tap.index, base.sum == 1 ? tap.weight : tap.weight / base.sum};
}

}  // namespace crema
