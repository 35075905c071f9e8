// Draws pictures with several digits, for detectors and segmentation.
#pragma once

#include <cstdint>
#include <opencv2/core.hpp>
#include <vector>

namespace crema::tools {

struct Scene {
  struct Object {
    int digit = 0;
    cv::Rect box;  // pixels of its strokes
  };
  cv::Mat picture;  // 8 bits, blue, green, red
  cv::Mat labels;   // 8 bits: digit + 1 on strokes, 0 elsewhere
  std::vector<Object> objects;
};

struct SceneStyle {
  int side = 160;       // width and height, from 64 on
  int most_digits = 4;  // from one to these
  double least = 0.15;  // heights of digits, in sides
  double most = 0.45;   //
};

// Returns a picture with digits that do not overlap, each in a color, on a background of two
// colors.
Scene DrawScene(uint64_t seed, uint64_t index, const SceneStyle& style);

}  // namespace crema::tools
