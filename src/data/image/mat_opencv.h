// Converts between planar images and OpenCV's interleaved ones.
#pragma once

#include <opencv2/core.hpp>

#include "data/image/image.h"

namespace crema {

cv::Mat MergePlanes(const Image& image);
// Requires: 8 bits per channel. Reuses the memory of `image`.
void SplitPlanes(const cv::Mat& merged, Image* image);

}  // namespace crema
