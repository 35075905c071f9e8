#include "data/image/mat_opencv.h"

#include <cstddef>
#include <vector>

namespace crema {

cv::Mat MergePlanes(const Image& image) {
  const size_t plane = static_cast<size_t>(image.height) * static_cast<size_t>(image.width);
  std::vector<cv::Mat> planes;
  for (size_t c = 0; c < static_cast<size_t>(image.channels); ++c) {
    // cv::Mat has no const view, but OpenCV only reads this one.
    planes.emplace_back(image.height, image.width, CV_8U,
                        const_cast<uint8_t*>(image.pixels.data() + c * plane));
  }
  cv::Mat merged;
  cv::merge(planes, merged);
  return merged;
}

void SplitPlanes(const cv::Mat& merged, Image* image) {
  image->channels = merged.channels();
  image->height = merged.rows;
  image->width = merged.cols;
  image->pixels.resize(merged.total() * static_cast<size_t>(merged.channels()));
  std::vector<cv::Mat> planes;
  for (size_t c = 0; c < static_cast<size_t>(image->channels); ++c) {
    planes.emplace_back(merged.rows, merged.cols, CV_8U, image->pixels.data() + c * merged.total());
  }
  cv::split(merged, planes);
}

}  // namespace crema
