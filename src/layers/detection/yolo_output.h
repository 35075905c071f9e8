// YoloDetectionOutput and Yolov3DetectionOutput: their parameters, sizes and boxes. See
// yolo_output.cc.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "core/tensor.h"
#include "graph/layer.h"
#include "math/boxes.h"

namespace crema {

enum class YoloVersion { kV2, kV3 };

// The sides of a box whose size was predicted as 0, in cells of its grid.
struct YoloAnchor {
  double width = 0;
  double height = 0;
};

// One bottom: N x (anchors (5 + classes)) x height x width.
struct YoloGrid {
  int64_t height = 0;
  int64_t width = 0;
  int64_t first = 0;  // index of its first box among those of an image
  std::vector<YoloAnchor> anchors = {};

  int64_t places() const { return height * width; }
};

struct YoloHead {
  YoloVersion version = YoloVersion::kV2;
  int64_t images = 0;
  int64_t classes = 0;
  int64_t boxes = 0;   // of an image: grid by grid, anchor by anchor, place by place
  double least = 0;    // scores must exceed it
  double overlap = 0;  // a box is dropped if it overlaps a better one by more
  std::vector<YoloGrid> grids = {};
};

// Throws kInvalidArgument for parameters that no bottoms suit.
void CheckYoloParameters(const Layer& layer, YoloVersion version);

// Requires parameters that passed that check. Throws kInvalidArgument if the bottoms do not suit
// them.
YoloHead YoloHeadOf(const Layer& layer, YoloVersion version, std::span<const Shape> inputs);

// One anchor at one place of a grid.
struct YoloPlace {
  int64_t column, row;
  int64_t columns, rows;  // of the grid
  YoloAnchor anchor;
};

struct YoloBox {
  Box box;  // in units of the image, beyond it too
  double score;
  int64_t label;  // of the best class, from 0
};

CREMA_HOST_DEVICE inline double YoloSigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// `value` returns the prediction of a channel 0 .. 4 + classes: x, y, width, height, object, and
// the classes. The score of a class is its share (V2) or its own probability (V3) times that of an
// object.
template <typename Value>
CREMA_HOST_DEVICE YoloBox DecodeYolo(YoloVersion version, int64_t classes, const YoloPlace& place,
                                     const Value& value) {
  int64_t label = 0;
  for (int64_t c = 1; c < classes; ++c) {
    if (value(5 + c) > value(5 + label)) label = c;
  }
  const double best = value(5 + label);
  double probability = YoloSigmoid(best);
  if (version == YoloVersion::kV2) {
    double sum = 0;
    for (int64_t c = 0; c < classes; ++c) sum += std::exp(value(5 + c) - best);
    probability = 1 / sum;
  }
  const double x = (static_cast<double>(place.column) + YoloSigmoid(value(0))) /
                   static_cast<double>(place.columns);
  const double y =
      (static_cast<double>(place.row) + YoloSigmoid(value(1))) / static_cast<double>(place.rows);
  const double across =
      std::exp(value(2)) * place.anchor.width / static_cast<double>(place.columns) / 2;
  const double down =
      std::exp(value(3)) * place.anchor.height / static_cast<double>(place.rows) / 2;
  // A box that is not finite gets the score NaN, which no threshold accepts.
  const double nothing = (x + y + across + down) * 0;
  return {{x - across, y - down, x + across, y + down},
          YoloSigmoid(value(4)) * probability + nothing,
          label};
}

}  // namespace crema
