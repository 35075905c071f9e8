// Encodes PNG files without an image library.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace crema {

// Layout H x W x C: 1 channel (gray) or 3 (red, green, blue).
struct Picture {
  int width = 0;
  int height = 0;
  int channels = 3;
  std::vector<uint8_t> pixels;
  // For one channel: red, green, blue of each pixel value, at most 256; empty: gray.
  std::vector<std::array<uint8_t, 3>> palette = {};
};

// Returns the bytes of the file. Requires: width and height above 0, and a matching number of
// pixels.
std::string EncodePng(const Picture& picture);

}  // namespace crema
