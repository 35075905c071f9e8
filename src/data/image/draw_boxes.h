// Draws boxes, bars with captions and class colors on a picture.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

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
  int color = 0;                                   // index into a cycle of colors
  std::vector<std::array<double, 2>> points = {};  // x and y of dots
};

// A line with a bar; `share` is its share of the width.
struct CaptionedBar {
  std::string caption;
  double share = 0;                               // 0 to 1
  std::array<uint8_t, 3> color = {30, 100, 150};  // red, green, blue
};

// These three require a BGR picture and throw kUnsupported without OpenCV.
// Draws the captions of boxes from 20 pixels of height on, except where they would cover those of
// earlier boxes.
void DrawBoxes(std::span<const CaptionedBox> boxes, Image* picture);
// Draws the bars from the upper left corner downwards, as many as fit.
void DrawBars(std::span<const CaptionedBar> bars, Image* picture);
// Returns the file, in the format of the extension of `path`. Throws kInvalidArgument for an
// unsupported format.
std::string EncodePicture(const Image& picture, const std::string& path);

// Returns the red, green and blue of a class as Pascal VOC has them: 0 black, 1 dark red, 15 pink,
// ... Distinct for the first 256 classes.
std::array<uint8_t, 3> ClassColor(int index);

// Blends class colors into a picture, half and half. Skips class 0, the background. `classes` has
// one channel, one class per pixel; another size is scaled by nearest neighbour. Requires: a BGR
// picture.
void OverlayClasses(const Image& classes, Image* picture);

// Resizes an image of one channel by nearest neighbour. Requires: no side is 0.
Image ResizeClasses(const Image& classes, int height, int width);

}  // namespace crema
