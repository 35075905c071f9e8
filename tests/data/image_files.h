// Small image files for tests. Needs OpenCV.
#pragma once

#include <gtest/gtest.h>

#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>
#include <string>
#include <vector>

namespace crema::testing {

// Pixel (y, x) of channel c is base + 100c + 10y + x.
inline cv::Mat Pattern(int height, int width, int channels, int base = 0) {
  cv::Mat image(height, width, CV_8UC(channels));
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width * channels; ++x) {
      const int value = base + 100 * (x % channels) + 10 * y + x / channels;
      image.ptr<uchar>(y)[x] = cv::saturate_cast<uchar>(value);
    }
  }
  return image;
}

inline cv::Mat Flat(int height, int width, int value) {
  return cv::Mat(height, width, CV_8UC3, cv::Scalar::all(value));
}

inline std::string Encode(const cv::Mat& image, const std::string& extension = ".png") {
  std::vector<uchar> bytes;
  EXPECT_TRUE(cv::imencode(extension, image, bytes));
  return {bytes.begin(), bytes.end()};
}

}  // namespace crema::testing
