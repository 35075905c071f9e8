// Class colors of Pascal VOC: 0 black, 1 dark red, 15 pink, ...
#pragma once

#include <array>
#include <cstdint>

#include "data/image/image.h"

namespace crema {

// Red, green, blue. Distinct for the first 256 classes.
std::array<uint8_t, 3> ClassColor(int index);

// Blends class colors into a picture, half and half. Skips class 0, the background. `classes` has
// one channel, one class per pixel; another size is scaled by nearest neighbour. Requires: a BGR
// picture.
void OverlayClasses(const Image& classes, Image* picture);

// Resizes an image of one channel by nearest neighbour. Requires: no side is 0.
Image ResizeClasses(const Image& classes, int height, int width);

}  // namespace crema
