// NonMaxSuppression: its sizes and boxes. See non_max_suppression.cc.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "crema.pb.h"
#include "graph/layer.h"
#include "math/box_suppression.h"

namespace crema {

struct ChosenBoxSizes {
  ChosenBoxSizes(const Layer& layer, const Shape& box_shape, const Shape& scores)
      : samples(scores[0]), classes(scores[1]), boxes(box_shape[1]), most(boxes) {
    const NonMaxSuppressionParameter& p = layer.param().non_max_suppression_param();
    if (p.has_max_output_boxes_per_class()) most = std::min(most, p.max_output_boxes_per_class());
  }

  CREMA_HOST_DEVICE int64_t lists() const { return samples * classes; }

  int64_t samples, classes;
  int64_t boxes;  // of a sample
  int64_t most;   // chosen in a class of a sample
};

// Returns the rule; scores must exceed `least`.
inline SuppressionRule ChosenBoxRule(const Layer& layer, const ChosenBoxSizes& sizes) {
  const NonMaxSuppressionParameter& p = layer.param().non_max_suppression_param();
  return {.threshold = p.iou_threshold(), .most = sizes.most};
}
inline double LeastScore(const Layer& layer) {
  const NonMaxSuppressionParameter& p = layer.param().non_max_suppression_param();
  return p.has_score_threshold() ? p.score_threshold() : -std::numeric_limits<double>::infinity();
}

// Returns the box of four numbers: its centre, width and height, or two opposite corners, y first.
CREMA_HOST_DEVICE inline Box GivenBox(bool center, const BoxOffsets& v) {
  if (center) {
    return {v[0] - v[2] / 2, v[1] - v[3] / 2, v[0] + v[2] / 2, v[1] + v[3] / 2};
  }
  return {v[1] < v[3] ? v[1] : v[3], v[0] < v[2] ? v[0] : v[2], v[1] < v[3] ? v[3] : v[1],
          v[0] < v[2] ? v[2] : v[0]};
}

}  // namespace crema
