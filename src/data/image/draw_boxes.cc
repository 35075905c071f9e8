// Used by builds without OpenCV.
#include "data/image/draw_boxes.h"

#include "core/error.h"
#include "data/image/video_opencv.h"

namespace crema {

#ifndef CREMA_HAVE_OPENCV
namespace {
[[noreturn]] void FailWithoutOpenCv() {
  Fail(ErrorCode::kUnsupported,
       "drawing needs OpenCV, and this program was built without it: build with CREMA_OPENCV=ON");
}
}  // namespace

void DrawBoxes(std::span<const CaptionedBox>, Image*) { FailWithoutOpenCv(); }
void DrawBars(std::span<const CaptionedBar>, Image*) { FailWithoutOpenCv(); }
std::string EncodePicture(const Image&, const std::string&) { FailWithoutOpenCv(); }

struct VideoWriter::Encoder {};
VideoWriter::VideoWriter(const std::string&, double, int, int) { FailWithoutOpenCv(); }
VideoWriter::~VideoWriter() = default;
void VideoWriter::Write(const Image&) {}
#endif

// Bit k of a channel (from the top) is bit 3 k (+ 1, + 2) of the index.
std::array<uint8_t, 3> ClassColor(int index) {
  std::array<uint8_t, 3> color{};
  for (int bit = 7; bit >= 0 && index > 0; --bit, index >>= 3) {
    for (int channel = 0; channel < 3; ++channel) {
      color[static_cast<size_t>(channel)] |= static_cast<uint8_t>((index >> channel & 1) << bit);
    }
  }
  return color;
}

Image ResizeClasses(const Image& classes, int height, int width) {
  CREMA_CHECK(classes.channels == 1 && classes.height > 0 && classes.width > 0);
  Image out{.channels = 1, .height = height, .width = width, .pixels = {}};
  out.pixels.reserve(static_cast<size_t>(height) * static_cast<size_t>(width));
  for (int64_t y = 0; y < height; ++y) {
    const int64_t row = (2 * y + 1) * classes.height / (2 * int64_t{height}) * classes.width;
    for (int64_t x = 0; x < width; ++x) {
      const int64_t column = (2 * x + 1) * classes.width / (2 * int64_t{width});
      out.pixels.push_back(classes.pixels[static_cast<size_t>(row + column)]);
    }
  }
  return out;
}

void OverlayClasses(const Image& classes, Image* picture) {
  CREMA_CHECK(picture->channels == 3);
  const Image fitted = ResizeClasses(classes, picture->height, picture->width);
  const size_t plane = fitted.pixels.size();
  for (size_t i = 0; i < plane; ++i) {
    if (fitted.pixels[i] == 0) continue;
    const std::array<uint8_t, 3> color = ClassColor(fitted.pixels[i]);
    for (size_t c = 0; c < 3; ++c) {
      uint8_t& pixel = picture->pixels[c * plane + i];
      pixel = static_cast<uint8_t>((pixel + color[2 - c] + 1) / 2);
    }
  }
}

}  // namespace crema
