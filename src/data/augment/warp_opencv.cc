#include <cmath>
#include <cstddef>
#include <numbers>
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>

#include "data/augment/warp.h"

namespace crema {
namespace {

// cv::Mat has no const view, but OpenCV only reads this one.
cv::Mat PlaneOf(const Image& image, size_t channel) {
  const size_t plane = static_cast<size_t>(image.height) * static_cast<size_t>(image.width);
  return {image.height, image.width, CV_8U,
          const_cast<uint8_t*>(image.pixels.data() + channel * plane)};
}

// Maps pixel centres to pixel centres.
cv::Matx23d MatrixOf(const Warp& warp, const Image& image) {
  const double radians = warp.degrees * std::numbers::pi / 180;
  const double xx = std::cos(radians) * warp.wide;
  const double xy = std::sin(radians) * warp.high;
  const double yx = -std::sin(radians) * warp.wide;
  const double yy = std::cos(radians) * warp.high;
  const double x = (image.width - 1) / 2.0;
  const double y = (image.height - 1) / 2.0;
  return {xx, xy, x - xx * x - xy * y, yx, yy, y - yx * x - yy * y};
}

}  // namespace

Image WarpImage(const Warp& warp, const Image& image, const std::vector<uint8_t>& fill) {
  Image out{.channels = image.channels, .height = image.height, .width = image.width, .pixels = {}};
  out.pixels.resize(image.pixels.size());
  const cv::Matx23d matrix = MatrixOf(warp, image);
  for (size_t c = 0; c < static_cast<size_t>(image.channels); ++c) {
    cv::Mat target = PlaneOf(out, c);
    cv::warpAffine(PlaneOf(image, c), target, matrix, target.size(), cv::INTER_LINEAR,
                   cv::BORDER_CONSTANT, cv::Scalar::all(fill[c]));
  }
  return out;
}

void Blur(double sigma, Image* image) {
  const int side = 2 * static_cast<int>(std::ceil(3 * sigma)) + 1;
  for (size_t c = 0; c < static_cast<size_t>(image->channels); ++c) {
    cv::Mat plane = PlaneOf(*image, c);
    cv::GaussianBlur(plane, plane, cv::Size(side, side), sigma, sigma, cv::BORDER_REFLECT_101);
  }
}

}  // namespace crema
