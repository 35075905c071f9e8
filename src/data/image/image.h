// Images as planes of bytes: decodes and encodes image files in memory, and resizes images.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/shape.h"

namespace crema {

enum class ColorMode {
  kAsStored,  // the channels of the file
  kColor,     // three, BGR
  kGray,      // one
};

// Layout C x H x W, one byte per value.
struct Image {
  int channels = 0;
  int height = 0;
  int width = 0;
  std::vector<uint8_t> pixels;
};

// Pixels of one sample, C x H x W. Exactly one of the two pointers is set.
struct PixelView {
  int channels = 0;
  int height = 0;
  int width = 0;
  const uint8_t* bytes = nullptr;
  const float* floats = nullptr;

  Shape shape() const { return {channels, height, width}; }
};

PixelView ViewOf(const Image& image);
// Does nothing if the view refers to `image`. Requires: bytes.
void CopyPixels(const PixelView& view, Image* image);

// Like Image, but interleaved: H x W x C.
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

// Decodes a JPEG, PNG or any other 8-bit file that OpenCV reads; reuses the memory of `image`.
// kColor and kGray apply EXIF's orientation, as OpenCV does. JPEG files are decoded by
// libjpeg-turbo if the build has it (see image_jpeg.h), others by OpenCV. Throws kDataLoss
// (messages begin with `name`), kUnsupported if the build has no decoder for the format.
void DecodeImage(std::string_view bytes, ColorMode mode, const std::string& name, Image* image);

// Decoders silently fill the missing end of a truncated file with gray, so check the structure
// first. Returns the fault of a JPEG or PNG file. Empty for a whole file or another format.
std::string FindTruncation(std::string_view bytes);

// The first five in the order of ResizeParameter.Interp_mode, as OpenCV computes them; the others
// as Pillow does (ResizeAntialiased).
enum class Interpolation {
  kLinear,
  kArea,
  kNearest,
  kCubic,
  kLanczos4,
  kAntialias,
  kAntialiasCubic,
};

// Resizes by the mean of all pixels below each output pixel, weighted by a triangle or a cubic
// kernel; rows first. Image.resize of Pillow up to 12, bit for bit; Pillow 13 takes columns first
// for some sizes, so that values differ by rounding. Requires: height and width above 0. Throws
// kInvalidArgument if height of the image x width has more than 2^26 pixels.
Image ResizeAntialiased(const Image& image, int height, int width, bool cubic);

// Requires: height and width above 0. Throws kUnsupported without OpenCV, except for kAntialias and
// kAntialiasCubic.
Image Resize(const Image& image, int height, int width, Interpolation how = Interpolation::kLinear);

// `type` is an extension such as jpg or png. `quality` (1 to 100) is for JPEG and WebP; 0: the
// library's default. Throws kInvalidArgument for an unsupported type, kUnsupported without OpenCV.
// Thread safety: any number of threads.
std::string EncodeImage(const Image& image, const std::string& type, int quality);

// Like DecodeImage, for the formats of OpenCV. Requires: 1 to INT_MAX bytes, not truncated.
void DecodeByOpenCv(std::string_view bytes, ColorMode mode, const std::string& name, Image* image);

}  // namespace crema
