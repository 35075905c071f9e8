// Boxes and bars with captions on a picture.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "data/image/image.h"

namespace crema {

struct PixelBox {
  double xmin = 0;
  double ymin = 0;
  double xmax = 0;
  double ymax = 0;
};

struct CaptionedBox {
  PixelBox box;
  std::string caption;
  int color = 0;  // which of a few colors; any number
};

// A line with a bar of that share of the width.
struct CaptionedBar {
  std::string caption;
  double share = 0;                               // 0 to 1
  std::array<uint8_t, 3> color = {30, 100, 150};  // red, green, blue
};

// All require a picture of blue, green and red, and throw kUnsupported without OpenCV.
void DrawBoxes(std::span<const CaptionedBox> boxes, Image* picture);
// One below the other, from the upper left corner on; as many as there is room for.
void DrawBars(std::span<const CaptionedBar> bars, Image* picture);
// The file, in the format that the extension of `path` names. Throws kInvalidArgument for one that
// cannot be written.
std::string EncodePicture(const Image& picture, const std::string& path);

}  // namespace crema
