#include <algorithm>
#include <cmath>
#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>
#include <vector>

#include "crema.pb.h"
#include "data/augment/colour.h"
#include "data/image/codecs_opencv.h"
#include "data/image/mat_opencv.h"

namespace crema {
namespace {

void Decolorize(cv::Mat* image) {
  if (image->channels() != 3) return;
  cv::Mat grey;
  cv::cvtColor(*image, grey, cv::COLOR_BGR2GRAY);
  cv::cvtColor(grey, *image, cv::COLOR_GRAY2BGR);
}

// Changes only the lightness: the first channel in the colour space that `to` converts to.
template <typename Change>
void ChangeLightness(cv::Mat* image, int to, int back, Change&& change) {
  if (image->channels() != 3) {
    if (image->channels() == 1) change(image);
    return;
  }
  cv::Mat other;
  cv::cvtColor(*image, other, to);
  cv::Mat lightness;
  cv::extractChannel(other, lightness, 0);
  change(&lightness);
  cv::insertChannel(lightness, other, 0);
  cv::cvtColor(other, *image, back);
}

void EqualizeHistogram(cv::Mat* image) {
  ChangeLightness(image, cv::COLOR_BGR2YCrCb, cv::COLOR_YCrCb2BGR,
                  [](cv::Mat* plane) { cv::equalizeHist(*plane, *plane); });
}

void EqualizeLocally(cv::Mat* image) {
  ChangeLightness(image, cv::COLOR_BGR2Lab, cv::COLOR_Lab2BGR, [](cv::Mat* plane) {
    constexpr double kClipLimit = 4;
    cv::createCLAHE(kClipLimit)->apply(*plane, *plane);
  });
}

void CompressJpeg(float quality, cv::Mat* image) {
  if (image->channels() != 1 && image->channels() != 3) return;
  std::vector<uchar> bytes;
  const ImageCodecs& codecs = LoadedImageCodecs();
  codecs.Encode(".jpg", *image, &bytes,
                {cv::IMWRITE_JPEG_QUALITY, static_cast<int>(std::clamp(quality, 0.f, 100.f))});
  *image = codecs.Decode(cv::Mat(bytes), cv::IMREAD_UNCHANGED);
}

void Posterize(cv::Mat* image) {
  constexpr int kStep = 64;  // four levels
  cv::Mat table(1, 256, CV_8U);
  for (int i = 0; i < 256; ++i) {
    table.at<uchar>(i) = static_cast<uchar>(i / kStep * kStep + kStep / 2);
  }
  cv::LUT(*image, table, *image);
}

void SaltAndPepper(const SaltPepperParameter& param, Draws& draws, cv::Mat* image) {
  const double share = std::clamp(static_cast<double>(param.fraction()), 0.0, 1.0);
  const auto count = static_cast<int64_t>(std::floor(share * static_cast<double>(image->total())));
  const int channels = image->channels();
  for (int64_t i = 0; i < count; ++i) {
    const auto y = static_cast<int>(draws.Below(static_cast<uint32_t>(image->rows)));
    const auto x = static_cast<int>(draws.Below(static_cast<uint32_t>(image->cols)));
    uchar* pixel = image->ptr<uchar>(y) + static_cast<ptrdiff_t>(x) * channels;
    for (int c = 0; c < channels; ++c) {
      const int given = param.value_size();
      pixel[c] = cv::saturate_cast<uchar>(given == 0 ? 0 : param.value(std::min(c, given - 1)));
    }
  }
}

void Convert(int code, cv::Mat* image) {
  if (image->channels() == 3) cv::cvtColor(*image, *image, code);
}

}  // namespace

void AddNoise(const NoiseParameter& param, Draws& draws, Image* image) {
  cv::Mat pixels = MergePlanes(*image);
  if (param.decolorize()) Decolorize(&pixels);
  if (param.gauss_blur()) cv::GaussianBlur(pixels, pixels, cv::Size(7, 7), 1.5);
  if (param.hist_eq()) EqualizeHistogram(&pixels);
  if (param.clahe()) EqualizeLocally(&pixels);
  if (param.jpeg() > 0) CompressJpeg(param.jpeg(), &pixels);
  if (param.erode()) {
    cv::erode(pixels, pixels, cv::getStructuringElement(cv::MORPH_ELLIPSE, cv::Size(3, 3)));
  }
  if (param.posterize()) Posterize(&pixels);
  if (param.inverse()) cv::bitwise_not(pixels, pixels);
  if (param.saltpepper()) SaltAndPepper(param.saltpepper_param(), draws, &pixels);
  if (param.convert_to_hsv()) Convert(cv::COLOR_BGR2HSV, &pixels);
  if (param.convert_to_lab()) Convert(cv::COLOR_BGR2Lab, &pixels);
  SplitPlanes(pixels, image);
}

}  // namespace crema
