// Pixels to image files in memory.
#pragma once

#include <string>

#include "data/image/image.h"

namespace crema {

// `type` is an extension, jpg or png for example. `quality` (1 to 100) is for JPEG and WebP; 0
// takes that of the library. Throws kInvalidArgument for a type that cannot be written,
// kUnsupported without OpenCV. Thread safety: any number of threads.
std::string EncodeImage(const Image& image, const std::string& type, int quality);

}  // namespace crema
