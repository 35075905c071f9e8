// Parts of images, and images on larger ones.
#pragma once

#include <cstdint>
#include <vector>

#include "crema.pb.h"
#include "data/augment/box.h"
#include "data/augment/draws.h"
#include "data/image/image.h"

namespace crema {

// A rectangle of pixels.
struct PixelRect {
  int top = 0;
  int left = 0;
  int height = 0;
  int width = 0;
};

// Requires: the rectangle lies in the image.
Image Crop(const Image& image, const PixelRect& part);
// Left to right.
void Mirror(Image* image);
// Puts the image at (top, left) of a canvas of this size, filled with one value a channel.
Image PutOnCanvas(const Image& image, const PixelRect& canvas, const std::vector<uint8_t>& fill);

// The whole pixels of a box (clipped to the image): at least one.
PixelRect PixelsOf(const Box& box, int height, int width);
// The other way round.
Box BoxOf(const PixelRect& part, int height, int width);

// expand_param: a random larger canvas, as large as the image where none is drawn. `top` and `left`
// say where the image lies on it.
PixelRect DrawCanvas(const ExpansionParameter& param, int height, int width, Draws& draws);

}  // namespace crema
