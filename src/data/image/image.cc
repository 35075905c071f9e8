#include "data/image/image.h"

#include <climits>
#include <cstddef>

#include "core/error.h"
#include "core/strings.h"
#include "data/image/image_jpeg.h"
#include "data/image/pixel_kernels.h"

namespace crema {
namespace {

uint8_t Byte(std::string_view bytes, size_t at) { return static_cast<uint8_t>(bytes[at]); }

// Walks the segments of a JPEG up to its end marker. A plain search would find the end markers of
// embedded thumbnails.
bool JpegReachesEnd(std::string_view bytes) {
  constexpr uint8_t kStartOfScan = 0xDA;
  constexpr uint8_t kEndOfImage = 0xD9;
  size_t at = 2;
  while (true) {
    at = bytes.find('\xFF', at);  // also skips the entropy-coded data of a scan
    if (at == std::string_view::npos) return false;
    while (at < bytes.size() && Byte(bytes, at) == 0xFF) ++at;  // fill bytes
    if (at >= bytes.size()) return false;
    const uint8_t marker = Byte(bytes, at++);
    if (marker == kEndOfImage) return true;
    const bool restart = marker >= 0xD0 && marker <= 0xD7;
    if (marker == 0x00 || marker == 0x01 || restart) continue;  // markers without a length
    if (at + 2 > bytes.size()) return false;
    const size_t length = size_t{Byte(bytes, at)} << 8 | Byte(bytes, at + 1);
    at += length;
    if (marker == kStartOfScan && at >= bytes.size()) return false;
  }
}

// Walks the chunks of a PNG up to IEND.
bool PngReachesEnd(std::string_view bytes) {
  size_t at = 8;
  while (at + 12 <= bytes.size()) {
    size_t length = 0;
    for (size_t i = 0; i < 4; ++i) length = length << 8 | Byte(bytes, at + i);
    if (bytes.substr(at + 4, 4) == "IEND") return true;
    at += 12 + length;
  }
  return false;
}

}  // namespace

PixelView ViewOf(const Image& image) {
  return {image.channels, image.height, image.width, image.pixels.data(), nullptr};
}

void CopyPixels(const PixelView& view, Image* image) {
  if (view.bytes == image->pixels.data()) return;
  image->channels = view.channels;
  image->height = view.height;
  image->width = view.width;
  image->pixels.assign(view.bytes, view.bytes + view.shape().count());
}

std::string FindTruncation(std::string_view bytes) {
  if (bytes.starts_with("\xFF\xD8\xFF") && !JpegReachesEnd(bytes)) {
    return "the JPEG is truncated: it has no end marker";
  }
  if (bytes.starts_with("\x89PNG\r\n\x1A\n") && !PngReachesEnd(bytes)) {
    return "the PNG is truncated: it has no end chunk";
  }
  return "";
}

#ifndef CREMA_HAVE_OPENCV
void DecodeByOpenCv(std::string_view, ColorMode, const std::string& name, Image*) {
#ifdef CREMA_HAVE_JPEG
  Fail(ErrorCode::kUnsupported,
       name +
           ": encoded images other than JPEG files need OpenCV, and this program was built without "
           "it: build with CREMA_OPENCV=ON, or write the data set with raw pixels");
#else
  Fail(ErrorCode::kUnsupported,
       name +
           ": encoded images need OpenCV, and this program was built without it: build with "
           "CREMA_OPENCV=ON, or write the data set with raw pixels");
#endif
}
#endif

void DecodeImage(std::string_view bytes, ColorMode mode, const std::string& name, Image* image) {
  if (bytes.empty() || bytes.size() > INT_MAX) {
    Fail(ErrorCode::kDataLoss,
         StrCat(name, ": an encoded image of ", bytes.size(), " bytes cannot be decoded"));
  }
#ifdef CREMA_HAVE_JPEG
  if (IsJpeg(bytes)) return JpegFile(bytes, mode, name).Decode(image);
#endif
  if (const std::string truncation = FindTruncation(bytes); !truncation.empty()) {
    Fail(ErrorCode::kDataLoss, StrCat(name, ": ", truncation));
  }
  DecodeByOpenCv(bytes, mode, name, image);
}

void UnpackImage(const PackedImage& packed, Image* image) {
  image->channels = packed.channels;
  image->height = packed.height;
  image->width = packed.width;
  if (packed.channels == 1) {
    image->pixels = packed.pixels;
    return;
  }
  image->pixels.resize(packed.pixels.size());
  const size_t plane = packed.pixels.size() / 3;
  uint8_t* out = image->pixels.data();
  SplitPixels(packed.pixels.data(), static_cast<ptrdiff_t>(plane), out, out + plane,
              out + 2 * plane);
}

// Replacements for builds without OpenCV.
#ifndef CREMA_HAVE_OPENCV
Image Resize(const Image& image, int height, int width, Interpolation how) {
  if (how >= Interpolation::kAntialias) {
    return ResizeAntialiased(image, height, width, how == Interpolation::kAntialiasCubic);
  }
  Fail(ErrorCode::kUnsupported, "this build has no OpenCV, so images cannot be resized");
}

std::string EncodeImage(const Image&, const std::string&, int) {
  Fail(ErrorCode::kUnsupported, "this build has no OpenCV, so image files cannot be written");
}
#endif

}  // namespace crema
