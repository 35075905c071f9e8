#include "math/boxes.h"

#include <algorithm>
#include <cmath>

namespace crema {
namespace {

double Side(double low, double high, BoxUnits units) {
  return high - low + (units == BoxUnits::kPixels ? 1 : 0);
}

BoxOffsets Corners(const Box& box) { return {box.xmin, box.ymin, box.xmax, box.ymax}; }

}  // namespace

double Area(const Box& box, BoxUnits units) {
  const double width = Side(box.xmin, box.xmax, units);
  const double height = Side(box.ymin, box.ymax, units);
  return width < 0 || height < 0 ? 0 : width * height;
}

double Intersection(const Box& a, const Box& b, BoxUnits units) {
  if (b.xmin > a.xmax || b.xmax < a.xmin || b.ymin > a.ymax || b.ymax < a.ymin) return 0;
  return Area({std::max(a.xmin, b.xmin), std::max(a.ymin, b.ymin), std::min(a.xmax, b.xmax),
               std::min(a.ymax, b.ymax)},
              units);
}

double Overlap(const Box& a, const Box& b, BoxUnits units) {
  const double common = Intersection(a, b, units);
  if (common == 0) return 0;
  return common / (Area(a, units) + Area(b, units) - common);
}

bool HasArea(const Box& box) { return box.xmax > box.xmin && box.ymax > box.ymin; }

bool InUnitSquare(const Box& box) {
  return box.xmin >= 0 && box.ymin >= 0 && box.xmax <= 1 && box.ymax <= 1;
}

Box Clip(const Box& box, double width, double height) {
  return {std::clamp(box.xmin, 0.0, width), std::clamp(box.ymin, 0.0, height),
          std::clamp(box.xmax, 0.0, width), std::clamp(box.ymax, 0.0, height)};
}

Box Scale(const Box& box, double sx, double sy) {
  return {box.xmin * sx, box.ymin * sy, box.xmax * sx, box.ymax * sy};
}

BoxOffsets Encode(BoxCode code, const Box& box, const Box& prior, const BoxOffsets& variance) {
  BoxOffsets offsets{};
  if (code == BoxCode::kCenterSize) {
    offsets = {((box.xmin + box.xmax) - (prior.xmin + prior.xmax)) / 2 / prior.width(),
               ((box.ymin + box.ymax) - (prior.ymin + prior.ymax)) / 2 / prior.height(),
               std::log(box.width() / prior.width()), std::log(box.height() / prior.height())};
  } else {
    const BoxOffsets b = Corners(box);
    const BoxOffsets p = Corners(prior);
    for (size_t k = 0; k < 4; ++k) offsets[k] = b[k] - p[k];
    if (code == BoxCode::kCornerSize) {
      for (size_t k = 0; k < 4; ++k) offsets[k] /= k % 2 == 0 ? prior.width() : prior.height();
    }
  }
  for (size_t k = 0; k < 4; ++k) offsets[k] /= variance[k];
  return offsets;
}

Box Decode(BoxCode code, const BoxOffsets& offsets, const Box& prior, const BoxOffsets& variance) {
  BoxOffsets o = offsets;
  for (size_t k = 0; k < 4; ++k) o[k] *= variance[k];
  if (code == BoxCode::kCenterSize) {
    const double x = (prior.xmin + prior.xmax) / 2 + o[0] * prior.width();
    const double y = (prior.ymin + prior.ymax) / 2 + o[1] * prior.height();
    const double half_width = std::exp(o[2]) * prior.width() / 2;
    const double half_height = std::exp(o[3]) * prior.height() / 2;
    return {x - half_width, y - half_height, x + half_width, y + half_height};
  }
  if (code == BoxCode::kCornerSize) {
    for (size_t k = 0; k < 4; ++k) o[k] *= k % 2 == 0 ? prior.width() : prior.height();
  }
  return {prior.xmin + o[0], prior.ymin + o[1], prior.xmax + o[2], prior.ymax + o[3]};
}

}  // namespace crema
