// Axis-aligned boxes: areas, overlaps, and their encoding relative to a prior. GPUs use this code
// too and round as the CPU does (except for exponentials and logarithms), so that ties are resolved
// alike.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "core/host_device.h"

namespace crema {

// Corners. A box has no area unless its maximum is greater than its minimum on both axes.
struct Box {
  double xmin = 0;
  double ymin = 0;
  double xmax = 0;
  double ymax = 0;

  CREMA_HOST_DEVICE double width() const { return xmax - xmin; }
  CREMA_HOST_DEVICE double height() const { return ymax - ymin; }
};

// The length of [a, b]: b - a (kContinuous), or b - a + 1, both pixels counted (kPixels).
enum class BoxUnits { kContinuous, kPixels };

enum class BoxCode {
  kCorner,      // corners minus corners
  kCenterSize,  // shift of the centre in prior sizes, logarithm of the ratio of the sizes
  kCornerSize,  // corners minus corners, in prior sizes
};

using BoxOffsets = std::array<double, 4>;

// A product that is rounded before something is added to it: GPUs would fuse both operations.
CREMA_HOST_DEVICE inline double RoundedProduct(double a, double b) {
#ifdef __CUDA_ARCH__
  return __dmul_rn(a, b);
#else
  return a * b;
#endif
}

CREMA_HOST_DEVICE inline double BoxSide(double low, double high, BoxUnits units) {
  return high - low + (units == BoxUnits::kPixels ? 1 : 0);
}

CREMA_HOST_DEVICE inline BoxOffsets BoxCorners(const Box& box) {
  return {box.xmin, box.ymin, box.xmax, box.ymax};
}

// Returns 0 if a maximum is below its minimum.
CREMA_HOST_DEVICE inline double Area(const Box& box, BoxUnits units = BoxUnits::kContinuous) {
  const double width = BoxSide(box.xmin, box.xmax, units);
  const double height = BoxSide(box.ymin, box.ymax, units);
  return width < 0 || height < 0 ? 0 : RoundedProduct(width, height);
}

// Returns the common area; 0 for disjoint boxes.
CREMA_HOST_DEVICE inline double Intersection(const Box& a, const Box& b,
                                             BoxUnits units = BoxUnits::kContinuous) {
  if (b.xmin > a.xmax || b.xmax < a.xmin || b.ymin > a.ymax || b.ymax < a.ymin) return 0;
  return Area({std::max(a.xmin, b.xmin), std::max(a.ymin, b.ymin), std::min(a.xmax, b.xmax),
               std::min(a.ymax, b.ymax)},
              units);
}

// Returns intersection over union, in 0..1; 0 for boxes without area. NaN if a corner is NaN.
CREMA_HOST_DEVICE inline double Overlap(const Box& a, const Box& b,
                                        BoxUnits units = BoxUnits::kContinuous) {
  const double common = Intersection(a, b, units);
  if (common == 0) return 0;
  return common / (Area(a, units) + Area(b, units) - common);
}

CREMA_HOST_DEVICE inline bool HasArea(const Box& box) {
  return box.xmax > box.xmin && box.ymax > box.ymin;
}

CREMA_HOST_DEVICE inline bool InUnitSquare(const Box& box) {
  return box.xmin >= 0 && box.ymin >= 0 && box.xmax <= 1 && box.ymax <= 1;
}

// Limits every coordinate to [0, width] or [0, height].
CREMA_HOST_DEVICE inline Box Clip(const Box& box, double width, double height) {
  return {std::clamp(box.xmin, 0.0, width), std::clamp(box.ymin, 0.0, height),
          std::clamp(box.xmax, 0.0, width), std::clamp(box.ymax, 0.0, height)};
}

// x times sx, y times sy.
CREMA_HOST_DEVICE inline Box Scale(const Box& box, double sx, double sy) {
  return {box.xmin * sx, box.ymin * sy, box.xmax * sx, box.ymax * sy};
}

// Encodes `box` relative to `prior`, divided by `variance`. kCenterSize and kCornerSize require a
// prior with area; kCenterSize also requires a box with area.
CREMA_HOST_DEVICE inline BoxOffsets Encode(BoxCode code, const Box& box, const Box& prior,
                                           const BoxOffsets& variance) {
  BoxOffsets offsets{};
  if (code == BoxCode::kCenterSize) {
    offsets = {((box.xmin + box.xmax) - (prior.xmin + prior.xmax)) / 2 / prior.width(),
               ((box.ymin + box.ymax) - (prior.ymin + prior.ymax)) / 2 / prior.height(),
               std::log(box.width() / prior.width()), std::log(box.height() / prior.height())};
  } else {
    const BoxOffsets b = BoxCorners(box);
    const BoxOffsets p = BoxCorners(prior);
    for (size_t k = 0; k < 4; ++k) offsets[k] = b[k] - p[k];
    if (code == BoxCode::kCornerSize) {
      for (size_t k = 0; k < 4; ++k) offsets[k] /= k % 2 == 0 ? prior.width() : prior.height();
    }
  }
  for (size_t k = 0; k < 4; ++k) offsets[k] /= variance[k];
  return offsets;
}

// The inverse of Encode.
CREMA_HOST_DEVICE inline Box Decode(BoxCode code, const BoxOffsets& offsets, const Box& prior,
                                    const BoxOffsets& variance) {
  BoxOffsets o = offsets;
  for (size_t k = 0; k < 4; ++k) o[k] = RoundedProduct(o[k], variance[k]);
  if (code == BoxCode::kCenterSize) {
    const double x = (prior.xmin + prior.xmax) / 2 + RoundedProduct(o[0], prior.width());
    const double y = (prior.ymin + prior.ymax) / 2 + RoundedProduct(o[1], prior.height());
    const double half_width = RoundedProduct(std::exp(o[2]), prior.width()) / 2;
    const double half_height = RoundedProduct(std::exp(o[3]), prior.height()) / 2;
    return {x - half_width, y - half_height, x + half_width, y + half_height};
  }
  if (code == BoxCode::kCornerSize) {
    for (size_t k = 0; k < 4; ++k) {
      o[k] = RoundedProduct(o[k], k % 2 == 0 ? prior.width() : prior.height());
    }
  }
  return {prior.xmin + o[0], prior.ymin + o[1], prior.xmax + o[2], prior.ymax + o[3]};
}

}  // namespace crema
