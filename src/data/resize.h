// Images of another size.
#pragma once

#include "data/image.h"

namespace crema {

// Bilinear. Requires: height and width above 0. Throws kUnsupported without OpenCV.
Image Resize(const Image& image, int height, int width);

}  // namespace crema
