#include <array>
#include <cmath>
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>
#include <utility>

#include "crema.pb.h"
#include "data/augment/colour.h"
#include "data/image/mat_opencv.h"

namespace crema {
namespace {

constexpr double kNothing = 1e-3;  // a factor this close to 1 changes no pixel

double AsDouble(float value) { return static_cast<double>(value); }

// Computes value * factor + delta, rounded and clamped to 0..255.
void Linear(cv::Mat* image, double factor, double delta) {
  image->convertTo(*image, -1, factor, delta);
}

void Brightness(const DistortionParameter& param, Draws& draws, cv::Mat* image) {
  const bool on = draws.Chance(AsDouble(param.brightness_prob()));
  const double delta =
      draws.Uniform(-AsDouble(param.brightness_delta()), AsDouble(param.brightness_delta()));
  if (on && delta != 0) Linear(image, 1, delta);
}

void Contrast(const DistortionParameter& param, Draws& draws, cv::Mat* image) {
  const bool on = draws.Chance(AsDouble(param.contrast_prob()));
  const double factor =
      draws.Uniform(AsDouble(param.contrast_lower()), AsDouble(param.contrast_upper()));
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
  const bool on = draws.Chance(AsDouble(param.saturation_prob()));
  const double factor =
      draws.Uniform(AsDouble(param.saturation_lower()), AsDouble(param.saturation_upper()));
  if (on && image->channels() == 3 && std::abs(factor - 1) > kNothing) {
    ChangeHsv(image, 1, factor, 0);
  }
}

void Hue(const DistortionParameter& param, Draws& draws, cv::Mat* image) {
  const bool on = draws.Chance(AsDouble(param.hue_prob()));
  const double delta = draws.Uniform(-AsDouble(param.hue_delta()), AsDouble(param.hue_delta()));
  if (on && image->channels() == 3 && delta != 0) ChangeHsv(image, 0, 1, delta);
}

void ShuffleChannels(const DistortionParameter& param, Draws& draws, cv::Mat* image) {
  if (!draws.Chance(AsDouble(param.random_order_prob())) || image->channels() != 3) return;
  std::array<int, 3> order{0, 1, 2};
  for (uint32_t left = 3; left > 1; --left) std::swap(order[left - 1], order[draws.Below(left)]);
  cv::Mat shuffled(image->size(), image->type());
  const std::array<int, 6> pairs{order[0], 0, order[1], 1, order[2], 2};
  cv::mixChannels(image, 1, &shuffled, 1, pairs.data(), 3);
  *image = shuffled;
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

}  // namespace crema
