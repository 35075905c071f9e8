#include <algorithm>
#include <array>
#include <cmath>
#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>
#include <utility>
#include <vector>

#include "crema.pb.h"
#include "data/augment/colour.h"
#include "data/image/codecs_opencv.h"
#include "data/image/mat_opencv.h"

namespace crema {
namespace {

constexpr double kNothing = 1e-3;  // a factor this close to 1 changes no pixel

double ToDouble(float value) { return static_cast<double>(value); }

// Computes value * factor + delta, rounded and clamped to 0..255.
void Linear(cv::Mat* image, double factor, double delta) {
  image->convertTo(*image, -1, factor, delta);
}

void Brightness(const DistortionParameter& param, Draws& draws, cv::Mat* image) {
  const bool on = draws.Chance(ToDouble(param.brightness_prob()));
  const double delta =
      draws.Uniform(-ToDouble(param.brightness_delta()), ToDouble(param.brightness_delta()));
  if (on && delta != 0) Linear(image, 1, delta);
}

void Contrast(const DistortionParameter& param, Draws& draws, cv::Mat* image) {
  const bool on = draws.Chance(ToDouble(param.contrast_prob()));
  const double factor =
      draws.Uniform(ToDouble(param.contrast_lower()), ToDouble(param.contrast_upper()));
  if (on && std::abs(factor - 1) > kNothing) Linear(image, factor, 0);
}

// Changes one channel of the HSV image.
void ChangeHsv(cv::Mat* image, int channel, double factor, double delta) {
  cv::Mat hsv;
  cv::cvtColor(*image, hsv, cv::COLOR_BGR2HSV);
  cv::Mat plane;
  cv::extractChannel(hsv, plane, channel);
  Linear(&plane, factor, delta);
  cv::insertChannel(plane, hsv, channel);
  cv::cvtColor(hsv, *image, cv::COLOR_HSV2BGR);
}

void Saturation(const DistortionParameter& param, Draws& draws, cv::Mat* image) {
  const bool on = draws.Chance(ToDouble(param.saturation_prob()));
  const double factor =
      draws.Uniform(ToDouble(param.saturation_lower()), ToDouble(param.saturation_upper()));
  if (on && image->channels() == 3 && std::abs(factor - 1) > kNothing) {
    ChangeHsv(image, 1, factor, 0);
  }
}

void Hue(const DistortionParameter& param, Draws& draws, cv::Mat* image) {
  const bool on = draws.Chance(ToDouble(param.hue_prob()));
  const double delta = draws.Uniform(-ToDouble(param.hue_delta()), ToDouble(param.hue_delta()));
  if (on && image->channels() == 3 && delta != 0) ChangeHsv(image, 0, 1, delta);
}

void ShuffleChannels(const DistortionParameter& param, Draws& draws, cv::Mat* image) {
  if (!draws.Chance(ToDouble(param.random_order_prob())) || image->channels() != 3) return;
  std::array<int, 3> order{0, 1, 2};
  for (uint32_t left = 3; left > 1; --left) std::swap(order[left - 1], order[draws.Below(left)]);
  cv::Mat shuffled(image->size(), image->type());
  const std::array<int, 6> pairs{order[0], 0, order[1], 1, order[2], 2};
  cv::mixChannels(image, 1, &shuffled, 1, pairs.data(), 3);
  *image = shuffled;
}

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

void Distort(const DistortionParameter& param, Draws& draws, Image* image) {
  cv::Mat pixels = MergePlanes(*image);
  const bool contrast_first = draws.Chance(0.5);
  Brightness(param, draws, &pixels);
  if (contrast_first) Contrast(param, draws, &pixels);
  Saturation(param, draws, &pixels);
  Hue(param, draws, &pixels);
  if (!contrast_first) Contrast(param, draws, &pixels);
  ShuffleChannels(param, draws, &pixels);
  SplitPlanes(pixels, image);
}

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
