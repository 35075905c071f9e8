// Image files in memory, decoded to planes of bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/shape.h"

namespace crema {

enum class ColorMode {
  kAsStored,  // as many channels as the file has
  kColor,     // three, in the order blue, green, red
  kGray,      // one
};

// Channel by channel, row by row, one byte a pixel.
struct Image {
  int channels = 0;
  int height = 0;
  int width = 0;
  std::vector<uint8_t> pixels;
};

// Pixels of one sample, channel by channel, row by row. One of the two pointers is set.
struct PixelView {
  int channels = 0;
  int height = 0;
  int width = 0;
  const uint8_t* bytes = nullptr;
  const float* floats = nullptr;

  Shape shape() const { return {channels, height, width}; }
};

PixelView ViewOf(const Image& image);
// Nothing to do where the view is one of `image` already. Requires: bytes.
void CopyPixels(const PixelView& view, Image* image);

// As Image, but pixel by pixel: the channels of one lie together.
struct PackedImage {
  int channels = 0;
  int height = 0;
  int width = 0;
  std::vector<uint8_t> pixels;
};

// Requires: one or three channels. Reuses the memory of `image`.
void UnpackImage(const PackedImage& packed, Image* image);

struct ImagePart {
  int top = 0;
  int left = 0;
  int height = 0;
  int width = 0;
};

// Decodes a JPEG, PNG or any other file that OpenCV reads; reuses the memory of `image`. Only
// 8-bit images. EXIF's orientation counts for kColor and kGray, as in OpenCV. JPEG files are
// decoded by libjpeg-turbo itself where the build has it (see image_jpeg.h), the others by OpenCV.
// Throws kDataLoss (`name` begins the message), kUnsupported for what the build has no decoder for.
void DecodeImage(std::string_view bytes, ColorMode mode, const std::string& name, Image* image);

// Decoders fill the missing end of a truncated file with gray and say nothing, so the structure is
// checked before. Empty when `bytes` is a whole JPEG or PNG file, or a file of another kind; else
// what is wrong.
std::string FindTruncation(std::string_view bytes);

}  // namespace crema
