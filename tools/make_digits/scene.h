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

// Returns a picture of side x side pixels with one to four digits that do not overlap, each in a
// color, on a background of two colors. Requires: side from 64 on.
Scene DrawScene(uint64_t seed, uint64_t index, int side);

}  // namespace crema::tools
