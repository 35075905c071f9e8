#include <opencv2/imgproc.hpp>

#include "data/image/image.h"

namespace crema {

namespace {

int FlagOf(Interpolation how) {
  switch (how) {
    case Interpolation::kLinear:
      return cv::INTER_LINEAR;
    case Interpolation::kArea:
      return cv::INTER_AREA;
    case Interpolation::kNearest:
      return cv::INTER_NEAREST;
    case Interpolation::kCubic:
      return cv::INTER_CUBIC;
    case Interpolation::kLanczos4:
      return cv::INTER_LANCZOS4;
  }
  return cv::INTER_LINEAR;
}

}  // namespace

Image Resize(const Image& image, int height, int width, Interpolation how) {
  Image out{.channels = image.channels, .height = height, .width = width, .pixels = {}};
  const size_t from = static_cast<size_t>(image.height) * static_cast<size_t>(image.width);
  const size_t to = static_cast<size_t>(height) * static_cast<size_t>(width);
  out.pixels.resize(to * static_cast<size_t>(image.channels));
  for (size_t c = 0; c < static_cast<size_t>(image.channels); ++c) {
    const cv::Mat source(image.height, image.width, CV_8U,
                         const_cast<uint8_t*>(image.pixels.data() + c * from));
    cv::Mat target(height, width, CV_8U, out.pixels.data() + c * to);
    cv::resize(source, target, target.size(), 0, 0, FlagOf(how));
  }
  return out;
}

}  // namespace crema
