#include <opencv2/imgcodecs.hpp>
#include <vector>

#include "core/error.h"
#include "core/strings.h"
#include "data/image/codecs_opencv.h"
#include "data/image/image.h"
#include "data/image/mat_opencv.h"

namespace crema {
namespace {

std::vector<int> OptionsOf(const std::string& type, int quality) {
  if (quality == 0) return {};
  if (type == "webp") return {cv::IMWRITE_WEBP_QUALITY, quality};
  return {cv::IMWRITE_JPEG_QUALITY, quality};
}

}  // namespace

std::string EncodeImage(const Image& image, const std::string& type, int quality) {
  std::vector<uint8_t> file;
  bool written = false;
  try {
    written =
        LoadedImageCodecs().Encode("." + type, MergePlanes(image), &file, OptionsOf(type, quality));
  } catch (const cv::Exception&) {
    written = false;  // reported below
  }
  if (!written) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("images of ", image.channels, " channels cannot be written as '", type,
                "'; jpg or png will do"));
  }
  return {file.begin(), file.end()};
}

}  // namespace crema
