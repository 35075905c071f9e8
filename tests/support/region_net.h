// A detector of regions without weights, for tests.
#pragma once

#include <string>

namespace crema::test {

// Proposes each place of 16 x 16 pixels of a gray picture, bright ones first. A bright one has the
// class 1 of 3, and a box that lies half its width to the right.
inline constexpr const char* kRegionNet = R"(name: "regions"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 1 dim: 16 dim: 16 } } }
layer { name: "im_info" type: "Input" top: "im_info" input_param { shape { dim: 1 dim: 3 } } }
layer { name: "map" type: "Pooling" bottom: "data" top: "map" pooling_param { pool: AVE kernel_size: 16 stride: 16 } }
layer { name: "dark" type: "Power" bottom: "map" top: "dark" power_param { scale: -1 } }
layer { name: "rpn" type: "Concat" bottom: "dark" bottom: "map" top: "rpn" }
layer { name: "still" type: "Power" bottom: "map" top: "still" power_param { scale: 0 } }
layer { name: "moves" type: "Concat" bottom: "still" bottom: "still" bottom: "still" bottom: "still" top: "moves" }
layer { name: "proposal" type: "Proposal" bottom: "rpn" bottom: "moves" bottom: "im_info" top: "rois" proposal_param { ratio: 1 scale: 1 min_size: 0 } }
layer { name: "pool" type: "ROIPooling" bottom: "map" bottom: "rois" top: "pool" roi_pooling_param { pooled_h: 1 pooled_w: 1 spatial_scale: 0.0625 } }
layer { name: "zero" type: "Power" bottom: "pool" top: "zero" power_param { scale: 0 } }
layer { name: "half" type: "Power" bottom: "pool" top: "half" power_param { scale: 0 shift: 0.5 } }
layer { name: "lamp" type: "Power" bottom: "pool" top: "lamp" power_param { scale: 0.1 shift: -10 } }
layer { name: "leaf" type: "Power" bottom: "pool" top: "leaf" power_param { scale: 0 shift: -10 } }
layer { name: "scores" type: "Concat" bottom: "zero" bottom: "lamp" bottom: "leaf" top: "scores" }
layer { name: "cls_score" type: "Flatten" bottom: "scores" top: "cls_score" }
layer { name: "cls_prob" type: "Softmax" bottom: "cls_score" top: "cls_prob" }
layer { name: "boxes" type: "Concat" bottom: "zero" bottom: "zero" bottom: "zero" bottom: "zero" bottom: "half" bottom: "zero" bottom: "zero" bottom: "zero" bottom: "zero" bottom: "zero" bottom: "zero" bottom: "zero" top: "boxes" }
layer { name: "bbox_pred" type: "Flatten" bottom: "boxes" top: "bbox_pred" }
)";

// A gray picture of 24 x 16 pixels whose places of 8 x 8 are dark, but for the first: with
// --resize=32x48 it is scaled by 2, and the box of the first place is 4.5, 0, 13.5, 9.
inline std::string PictureOfALamp() {
  std::string file = "P5\n24 16\n255\n";
  for (int i = 0; i < 16 * 24; ++i) file += i / 24 < 8 && i % 24 < 8 ? '\xff' : '\0';
  return file;
}

}  // namespace crema::test
