// Rotates, scales, stretches and blurs images.
#pragma once

#include <cstdint>
#include <vector>

#include "data/augment/box.h"
#include "data/image/image.h"

namespace crema {

// Scales objects by `wide` and `high`, then rotates them counter-clockwise.
struct Warp {
  double degrees = 0;
  double wide = 1;
  double high = 1;

  bool operator==(const Warp&) const = default;
};

// Returns the axis-aligned bounding box of a rotated box, not clipped.
Box WarpBox(const Warp& warp, const Box& box, int height, int width);

// Keeps the size. Pixels from outside of the image become `fill`, one value per channel. Linear
// interpolation. Throws kUnsupported without OpenCV.
Image WarpImage(const Warp& warp, const Image& image, const std::vector<uint8_t>& fill);

// Applies a Gaussian blur with a radius of three deviations (rounded up). The border is mirrored at
// the edge pixels. Throws kUnsupported without OpenCV.
void Blur(double sigma, Image* image);

}  // namespace crema
