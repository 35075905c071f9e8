// The decoders used by DecodeImage.
#pragma once

#include <string>
#include <string_view>

#include "data/image/image.h"

namespace crema {

// Like DecodeImage, for the formats of OpenCV. Requires: 1 to INT_MAX bytes, not truncated.
void DecodeByOpenCv(std::string_view bytes, ColorMode mode, const std::string& name, Image* image);

}  // namespace crema
