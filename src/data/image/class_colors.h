// The colors of classes, as Pascal VOC numbers them: 0 black, 1 dark red, 15 pink, ...
#pragma once

#include <array>
#include <cstdint>

#include "data/image/image.h"

namespace crema {

// Red, green, blue. Different for each of the first 256.
std::array<uint8_t, 3> ClassColor(int index);

// Mixes the colors of the classes into a picture, half and half; class 0 is the background, which
// stays. `classes` has one channel, a class a pixel, and may be of another size: the nearest pixel
// counts. Requires: a picture of blue, green, red.
void OverlayClasses(const Image& classes, Image* picture);

// An image of one channel in another size, by the nearest pixel. Requires: no empty sides.
Image ResizeClasses(const Image& classes, int height, int width);

}  // namespace crema
