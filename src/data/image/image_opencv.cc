// Excluded from builds without OpenCV; see image.cc.
#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>

#include "core/error.h"
#include "core/strings.h"
#include "data/image/codecs_opencv.h"
#include "data/image/image.h"
#include "data/image/mat_opencv.h"

namespace crema {
namespace {

cv::Mat Decode(std::string_view bytes, ColorMode mode, const std::string& name) {
  int flags = cv::IMREAD_UNCHANGED;
  if (mode == ColorMode::kColor) flags = cv::IMREAD_COLOR;
  if (mode == ColorMode::kGray) flags = cv::IMREAD_GRAYSCALE;
  // cv::Mat has no const view, but OpenCV only reads this one.
  const cv::Mat buffer(1, static_cast<int>(bytes.size()), CV_8U, const_cast<char*>(bytes.data()));
  try {
    return LoadedImageCodecs().Decode(buffer, flags);
  } catch (const cv::Exception& failure) {
    Fail(ErrorCode::kDataLoss, StrCat(name, ": the image cannot be decoded: ", failure.err));
  }
}

}  // namespace

void DecodeByOpenCv(std::string_view bytes, ColorMode mode, const std::string& name, Image* image) {
  const cv::Mat decoded = Decode(bytes, mode, name);
  if (decoded.empty()) {
    Fail(ErrorCode::kDataLoss,
         StrCat(name, ": the image cannot be decoded: it is damaged, or no image file"));
  }
  if (decoded.depth() != CV_8U) {
    Fail(ErrorCode::kDataLoss,
         StrCat(name, ": the image has more than 8 bits a channel; convert it to 8 bits"));
  }
  SplitPlanes(decoded, image);
}

}  // namespace crema
