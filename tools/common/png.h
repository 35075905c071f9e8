// PNG files from pixels, without an image library.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace crema::tools {

// Row by row, the channels of a pixel together: 1 (gray) or 3 (red, green, blue).
struct Picture {
  int width = 0;
  int height = 0;
  int channels = 3;
  std::vector<uint8_t> pixels;
  // Red, green, blue of each value of a pixel, 256 at most, where there is one channel; empty:
  // gray.
  std::vector<std::array<uint8_t, 3>> palette = {};
};

// The bytes of the file. Requires: width and height above 0, as many pixels as they say.
std::string EncodePng(const Picture& picture);

}  // namespace crema::tools
