// Upright boxes: areas, overlaps, and how a box is written relative to a prior.
#pragma once

#include <array>
#include <cstdint>

namespace crema {

// Corners. A box whose maximum does not lie behind its minimum has no area.
struct Box {
  double xmin = 0;
  double ymin = 0;
  double xmax = 0;
  double ymax = 0;

  double width() const { return xmax - xmin; }
  double height() const { return ymax - ymin; }
};

// How large [a, b] is: b - a (kContinuous), or b - a + 1, both pixels counted (kPixels).
enum class BoxUnits { kContinuous, kPixels };

// 0 for a box that is the wrong way round.
double Area(const Box& box, BoxUnits units = BoxUnits::kContinuous);
// The common area; 0 for boxes that do not meet.
double Intersection(const Box& a, const Box& b, BoxUnits units = BoxUnits::kContinuous);
// Intersection over union, in 0..1; 0 for boxes without area. NaN where a corner is NaN.
double Overlap(const Box& a, const Box& b, BoxUnits units = BoxUnits::kContinuous);

// Both sides are longer than 0.
bool HasArea(const Box& box);
// Lies within [0, 1] x [0, 1].
bool InUnitSquare(const Box& box);
// Every coordinate limited to [0, width] or [0, height].
Box Clip(const Box& box, double width, double height);
// x times sx, y times sy.
Box Scale(const Box& box, double sx, double sy);

enum class BoxCode {
  kCorner,      // corners minus corners
  kCenterSize,  // shift of the centre in prior sizes, logarithm of the ratio of the sizes
  kCornerSize,  // corners minus corners, in prior sizes
};

using BoxOffsets = std::array<double, 4>;

// `box` relative to `prior`, divided by `variance`. kCenterSize and kCornerSize require a prior,
// and kCenterSize a box, with area.
BoxOffsets Encode(BoxCode code, const Box& box, const Box& prior, const BoxOffsets& variance);
// The inverse of Encode.
Box Decode(BoxCode code, const BoxOffsets& offsets, const Box& prior, const BoxOffsets& variance);

}  // namespace crema
