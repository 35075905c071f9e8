// Resizes images.
#pragma once

#include "data/image/image.h"

namespace crema {

enum class Interpolation { kLinear, kArea, kNearest, kCubic, kLanczos4 };

// Requires: height and width above 0. Throws kUnsupported without OpenCV.
Image Resize(const Image& image, int height, int width, Interpolation how = Interpolation::kLinear);

}  // namespace crema
