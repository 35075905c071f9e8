// Encodes images to files in memory.
#pragma once

#include <string>

#include "data/image/image.h"

namespace crema {

// `type` is an extension such as jpg or png. `quality` (1 to 100) is for JPEG and WebP; 0: the
// library's default. Throws kInvalidArgument for an unsupported type, kUnsupported without OpenCV.
// Thread safety: any number of threads.
std::string EncodeImage(const Image& image, const std::string& type, int quality);

}  // namespace crema
