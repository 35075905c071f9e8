// Excluded from builds without OpenCV; see image.cc.
#include <cstddef>
#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>
#include <vector>

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

// By Interpolation.
constexpr int kFlags[] = {cv::INTER_LINEAR, cv::INTER_AREA, cv::INTER_NEAREST, cv::INTER_CUBIC,
                          cv::INTER_LANCZOS4};

std::vector<int> OptionsOf(const std::string& type, int quality) {
  if (quality == 0) return {};
  if (type == "webp") return {cv::IMWRITE_WEBP_QUALITY, quality};
  return {cv::IMWRITE_JPEG_QUALITY, quality};
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

Image Resize(const Image& image, int height, int width, Interpolation how) {
  if (how >= Interpolation::kAntialias) {
    return ResizeAntialiased(image, height, width, how == Interpolation::kAntialiasCubic);
  }
  Image out{.channels = image.channels, .height = height, .width = width, .pixels = {}};
  const size_t from = static_cast<size_t>(image.height) * static_cast<size_t>(image.width);
  const size_t to = static_cast<size_t>(height) * static_cast<size_t>(width);
  out.pixels.resize(to * static_cast<size_t>(image.channels));
  for (size_t c = 0; c < static_cast<size_t>(image.channels); ++c) {
    const cv::Mat source(image.height, image.width, CV_8U,
                         const_cast<uint8_t*>(image.pixels.data() + c * from));
    cv::Mat target(height, width, CV_8U, out.pixels.data() + c * to);
    cv::resize(source, target, target.size(), 0, 0, kFlags[static_cast<int>(how)]);
  }
  return out;
}

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
