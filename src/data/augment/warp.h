// Images turned, scaled and stretched about their centre, and blurred ones.
#pragma once

#include <cstdint>
#include <vector>

#include "data/augment/box.h"
#include "data/image/image.h"

namespace crema {

// Objects become `wide` times as wide and `high` times as high, and are turned after that,
// counter-clockwise.
struct Turn {
  double degrees = 0;
  double wide = 1;
  double high = 1;

  bool operator==(const Turn&) const = default;
};

// The rectangle, with sides along the image's, round the corners of a turned box; not clipped.
Box TurnBox(const Turn& turn, const Box& box, int height, int width);

// The size stays; what comes from beyond the image is `fill`, one value a channel. Linear
// interpolation. Throws kUnsupported without OpenCV.
Image TurnImage(const Turn& turn, const Image& image, const std::vector<uint8_t>& fill);

// Gaussian, up to three deviations (rounded up) to each side; the image goes on behind its edges
// mirrored at their pixels. Throws kUnsupported without OpenCV.
void Blur(double sigma, Image* image);

}  // namespace crema
