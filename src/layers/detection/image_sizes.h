// Boxes in pixels of the pictures that a net's input was made from.
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

// Lines `name height width`. Throws kDataLoss, naming the line, or what ReadFile throws.
std::vector<ImageSize> ReadImageSizes(const std::string& path);

// `box` in units of the net's input, limited to the picture, in pixels of the picture. `resize`
// says how the input was made; null: stretched.
Box ToPixels(const Box& box, const ImageSize& image, const ResizeParameter* resize);

}  // namespace crema
