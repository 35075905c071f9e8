// Crops images, at random rectangles too, and places them on larger canvases.
#pragma once

#include <cstdint>
#include <optional>
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
// Mirrors left to right.
void Mirror(Image* image);
// Puts the image at (top, left) of a canvas of this size, filled with one value a channel.
Image PutOnCanvas(const Image& image, const PixelRect& canvas, const std::vector<uint8_t>& fill);

// Returns the whole pixels of a box clipped to the image: at least one.
PixelRect PixelsOf(const Box& box, int height, int width);
// Computes the inverse of PixelsOf.
Box BoxOf(const PixelRect& part, int height, int width);

// expand_param: draws a random larger canvas, or one as large as the image. `top` and `left` are
// the position of the image on it.
PixelRect DrawCanvas(const ExpansionParameter& param, int height, int width, Draws& draws);

// Follows torchvision's RandomResizedCrop.get_params: draws area (uniform), aspect ratio
// (log-uniform) and position. After ten failed tries, returns the largest centred part with an
// allowed aspect ratio.
PixelRect DrawResizedCrop(const AugmentParameter::ResizedCrop& param, int height, int width,
                          Draws& draws);

// Follows torchvision's RandomErasing.get_params: up to ten tries for a rectangle smaller than the
// image in both directions, then nothing. Ignores `probability`.
std::optional<PixelRect> DrawErased(const AugmentParameter::Erase& param, int height, int width,
                                    Draws& draws);

}  // namespace crema
