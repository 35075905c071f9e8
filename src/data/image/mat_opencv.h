// Between images by planes and OpenCV's, whose channels lie together.
#pragma once

#include <opencv2/core.hpp>

#include "data/image/image.h"

namespace crema {

cv::Mat MergePlanes(const Image& image);
// Requires: 8 bits a channel. Reuses the memory of `image`.
void SplitPlanes(const cv::Mat& merged, Image* image);

}  // namespace crema
