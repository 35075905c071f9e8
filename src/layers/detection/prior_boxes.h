// The boxes of PriorBox around one position, for CPUs and GPUs; see prior_box.cc.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/host_device.h"
#include "core/shape.h"
#include "crema.pb.h"
#include "math/boxes.h"

namespace crema {

// Sizes of boxes in pixels, and offsets of their centres in a cell, in units of the step.
struct PriorSize {
  double width;
  double height;
};
struct PriorOffset {
  double x;
  double y;
};

constexpr double kSamePriorRatio = 1e-6;

// Returns 1, then each listed ratio that is new, followed by its reciprocal if `flip` is set. Lists
// are std::vector, or FixedList for GPUs.
template <typename Ratios>
Ratios PriorRatios(const PriorBoxParameter& param) {
  Ratios ratios{};
  ratios.push_back(1);
  for (const float ratio : param.aspect_ratio()) {
    const bool known = std::any_of(ratios.begin(), ratios.end(), [&](double r) {
      return std::abs(r - double{ratio}) < kSamePriorRatio;
    });
    if (known) continue;
    ratios.push_back(ratio);
    if (param.flip()) ratios.push_back(1 / double{ratio});
  }
  return ratios;
}

template <typename Ratios, typename Sizes>
Sizes PriorSizes(const PriorBoxParameter& param) {
  Sizes sizes{};
  for (int i = 0; i < param.width_size(); ++i) sizes.push_back({param.width(i), param.height(i)});
  const Ratios ratios = PriorRatios<Ratios>(param);
  for (int i = 0; i < param.min_size_size(); ++i) {
    const double least = std::trunc(double{param.min_size(i)});
    sizes.push_back({least, least});
    if (param.max_size_size() > 0) {
      const double side = std::sqrt(least * std::trunc(double{param.max_size(i)}));
      sizes.push_back({side, side});
    }
    for (const double ratio : ratios) {
      if (std::abs(ratio - 1) < kSamePriorRatio) continue;
      sizes.push_back({least * std::sqrt(ratio), least / std::sqrt(ratio)});
    }
  }
  return sizes;
}

template <typename Offsets>
Offsets PriorOffsets(const PriorBoxParameter& param) {
  Offsets offsets{};
  for (int i = 0; i < param.offset_h_size(); ++i) {
    offsets.push_back({param.offset_w(i), param.offset_h(i)});
  }
  if (param.offset_h_size() == 0) offsets.push_back({param.offset(), param.offset()});
  return offsets;
}

inline double PriorVariance(const PriorBoxParameter& param, int64_t k) {
  if (param.variance_size() == 0) return 0.1;
  return param.variance(param.variance_size() == 1 ? 0 : static_cast<int>(k));
}

struct PriorGrid {
  int64_t height, width;             // of the feature map
  double image_height, image_width;  // in pixels
  double step_y, step_x;             // pixels between neighbouring positions
};

inline PriorGrid MakePriorGrid(const PriorBoxParameter& p, const Shape& map, const Shape& image) {
  PriorGrid grid{};
  grid.height = map[2];
  grid.width = map[3];
  grid.image_height = static_cast<double>(image[2]);
  grid.image_width = static_cast<double>(image[3]);
  if (p.has_img_size()) grid.image_height = grid.image_width = p.img_size();
  if (p.has_img_h()) grid.image_height = p.img_h();
  if (p.has_img_w()) grid.image_width = p.img_w();
  grid.step_y = grid.image_height / static_cast<double>(grid.height);
  grid.step_x = grid.image_width / static_cast<double>(grid.width);
  if (p.has_step()) grid.step_y = grid.step_x = p.step();
  if (p.has_step_h()) grid.step_y = p.step_h();
  if (p.has_step_w()) grid.step_x = p.step_w();
  return grid;
}

// Returns a box in units of the image.
CREMA_HOST_DEVICE inline Box PriorAt(const PriorGrid& grid, double row, double column,
                                     const PriorSize& size, const PriorOffset& offset, bool clip) {
  const double x = (column + offset.x) * grid.step_x;
  const double y = (row + offset.y) * grid.step_y;
  const double across = 1 / grid.image_width;
  const double down = 1 / grid.image_height;
  const Box box{(x - size.width / 2) * across, (y - size.height / 2) * down,
                (x + size.width / 2) * across, (y + size.height / 2) * down};
  if (!clip) return box;
  return {std::clamp(box.xmin, 0.0, 1.0), std::clamp(box.ymin, 0.0, 1.0),
          std::clamp(box.xmax, 0.0, 1.0), std::clamp(box.ymax, 0.0, 1.0)};
}

}  // namespace crema
