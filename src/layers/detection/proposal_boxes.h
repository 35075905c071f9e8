// Anchors of Proposal, and the boxes derived from them.
#pragma once

#include <array>
#include <cmath>

#include "crema.pb.h"
#include "math/boxes.h"

namespace crema {

// Returns the anchors of the position at the origin, with ratios as the outer and scales as the
// inner loop. Lists are std::vector, or FixedList for GPUs.
template <typename Boxes>
Boxes ProposalAnchors(const ProposalParameter& param) {
  constexpr std::array<double, 3> kRatios{0.5, 1, 2};
  constexpr std::array<double, 3> kScales{8, 16, 32};
  const bool own_ratios = param.ratio_size() > 0;
  const bool own_scales = param.scale_size() > 0;
  const double base = param.base_size();
  const double centre = (base - 1) / 2;
  Boxes anchors{};
  for (int r = 0; r < (own_ratios ? param.ratio_size() : 3); ++r) {
    const double ratio = own_ratios ? double{param.ratio(r)} : kRatios[static_cast<size_t>(r)];
    const double width = std::round(std::sqrt(base * base / ratio));
    const double height = std::round(width * ratio);
    for (int s = 0; s < (own_scales ? param.scale_size() : 3); ++s) {
      const double scale = own_scales ? double{param.scale(s)} : kScales[static_cast<size_t>(s)];
      const double half_width = (width * scale - 1) / 2;
      const double half_height = (height * scale - 1) / 2;
      anchors.push_back(
          {centre - half_width, centre - half_height, centre + half_width, centre + half_height});
    }
  }
  return anchors;
}

CREMA_HOST_DEVICE inline Box ShiftBox(const Box& box, double x, double y) {
  return {box.xmin + x, box.ymin + y, box.xmax + x, box.ymax + y};
}

// Moves the centre by offsets in units of the anchor's size, and scales the size by exp of its
// offsets.
CREMA_HOST_DEVICE inline Box MoveAnchor(const Box& anchor, const BoxOffsets& offsets) {
  const double width = anchor.width() + 1;
  const double height = anchor.height() + 1;
  const double x = anchor.xmin + width / 2 + RoundedProduct(offsets[0], width);
  const double y = anchor.ymin + height / 2 + RoundedProduct(offsets[1], height);
  const double half_width = RoundedProduct(std::exp(offsets[2]), width) / 2;
  const double half_height = RoundedProduct(std::exp(offsets[3]), height) / 2;
  return {x - half_width, y - half_height, x + half_width, y + half_height};
}

}  // namespace crema
