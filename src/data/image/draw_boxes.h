// Draws boxes and bars with captions on a picture.
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
  int color = 0;  // index into a cycle of colors
};

// A line with a bar; `share` is its share of the width.
struct CaptionedBar {
  std::string caption;
  double share = 0;                               // 0 to 1
  std::array<uint8_t, 3> color = {30, 100, 150};  // red, green, blue
};

// All functions require a BGR picture and throw kUnsupported without OpenCV.
void DrawBoxes(std::span<const CaptionedBox> boxes, Image* picture);
// Draws the bars from the upper left corner downwards, as many as fit.
void DrawBars(std::span<const CaptionedBar> bars, Image* picture);
// Returns the file, in the format of the extension of `path`. Throws kInvalidArgument for an
// unsupported format.
std::string EncodePicture(const Image& picture, const std::string& path);

}  // namespace crema
