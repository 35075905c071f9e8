// Sizes of the original images of a net's input, and conversion of boxes to their pixels.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "crema.pb.h"
#include "math/boxes.h"

namespace crema {

struct ImageSize {
  std::string name;
  double height = 0;
  double width = 0;
};

// Reads lines `name height width`. Throws kDataLoss, naming the line, or what ReadFile throws.
std::vector<ImageSize> ReadImageSizes(const std::string& path);

// Converts `box` from units of the net's input to pixels of the image, and clips it to the image.
// `resize` describes how the input was resized; null means stretched.
Box ToPixels(const Box& box, const ImageSize& image, const ResizeParameter* resize);

}  // namespace crema
