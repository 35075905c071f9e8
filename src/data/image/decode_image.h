// The decoders behind DecodeImage.
#pragma once

#include <string>
#include <string_view>

#include "data/image/image.h"

namespace crema {

// As DecodeImage, for the kinds of files that OpenCV knows. Requires: bytes, INT_MAX of them at
// most; truncated ones were refused.
void DecodeByOpenCv(std::string_view bytes, ColorMode mode, const std::string& name, Image* image);

}  // namespace crema
