#include "make_digits/scene.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <opencv2/imgproc.hpp>

#include "core/rng.h"
#include "make_digits/digit.h"

namespace crema::tools {
namespace {

constexpr int kStroke = 96;  // of 255: pixels that belong to a digit

cv::Vec3d DrawColor(double low, double high, Dice* dice) {
  return {dice->Uniform(low, high), dice->Uniform(low, high), dice->Uniform(low, high)};
}

// One color that goes over into another.
cv::Mat DrawBackground(int side, double low, double high, Dice* dice) {
  const cv::Vec3d from = DrawColor(low, high, dice);
  const cv::Vec3d to = DrawColor(low, high, dice);
  const double angle = dice->Uniform(0, 2 * CV_PI);
  cv::Mat picture(side, side, CV_64FC3);
  for (int y = 0; y < side; ++y) {
    for (int x = 0; x < side; ++x) {
      const double along =
          ((x - side / 2.0) * std::cos(angle) + (y - side / 2.0) * std::sin(angle)) / side;
      const double share = std::clamp(along + 0.5, 0.0, 1.0);
      picture.at<cv::Vec3d>(y, x) = from * (1 - share) + to * share;
    }
  }
  return picture;
}

// The strokes of a digit cut to their size and scaled to a height; empty if they would not fit.
cv::Mat DrawScaled(int digit, const SceneStyle& style, Dice* dice) {
  const int side = style.side;
  const cv::Mat strokes = DrawStrokes(digit, dice);
  const cv::Rect tight = cv::boundingRect(strokes > kStroke);
  if (tight.area() == 0) return {};
  const double height = dice->Uniform(style.least, style.most) * side;
  const double scale = height / tight.height;
  const cv::Size size(std::max(4, static_cast<int>(std::lround(tight.width * scale))),
                      static_cast<int>(std::lround(height)));
  if (size.width >= side || size.height >= side) return {};
  cv::Mat scaled;
  cv::resize(strokes(tight), scaled, size, 0, 0, cv::INTER_AREA);
  return scaled;
}

// A free place for a box; empty after some tries.
cv::Rect FindPlace(const Scene& scene, cv::Size size, int side, Dice* dice) {
  constexpr int kTries = 20;
  constexpr int kGap = 3;
  for (int i = 0; i < kTries; ++i) {
    const cv::Rect box(dice->Below(side - size.width), dice->Below(side - size.height), size.width,
                       size.height);
    const cv::Rect around(box.x - kGap, box.y - kGap, box.width + 2 * kGap, box.height + 2 * kGap);
    const bool free = std::ranges::none_of(
        scene.objects, [&](const Scene::Object& other) { return (around & other.box).area() > 0; });
    if (free) return box;
  }
  return {};
}

void Paint(const cv::Mat& strokes, const cv::Rect& box, const cv::Vec3d& color, int digit,
           cv::Mat* picture, Scene* scene) {
  for (int y = 0; y < box.height; ++y) {
    for (int x = 0; x < box.width; ++x) {
      const double share = strokes.at<uint8_t>(y, x) / 255.0;
      auto& pixel = picture->at<cv::Vec3d>(box.y + y, box.x + x);
      pixel = pixel * (1 - share) + color * share;
      if (strokes.at<uint8_t>(y, x) > kStroke) {
        scene->labels.at<uint8_t>(box.y + y, box.x + x) = static_cast<uint8_t>(digit + 1);
      }
    }
  }
  scene->objects.push_back({.digit = digit, .box = box});
}

void AddNoise(cv::Mat* picture, Dice* dice) {
  const double noise = dice->Uniform(0, 12);
  for (int y = 0; y < picture->rows; ++y) {
    for (int x = 0; x < picture->cols; ++x) {
      for (int c = 0; c < 3; ++c) picture->at<cv::Vec3d>(y, x)[c] += dice->Gaussian(noise);
    }
  }
}

}  // namespace

Scene DrawScene(uint64_t seed, uint64_t index, const SceneStyle& style) {
  const int side = style.side;
  Dice dice(seed ^ HashName("scene"), index);
  const bool bright = dice.Chance(0.5);  // digits on a dark background
  cv::Mat picture = DrawBackground(side, bright ? 0 : 140, bright ? 115 : 255, &dice);
  Scene scene;
  scene.labels = cv::Mat::zeros(side, side, CV_8U);
  const int wanted = 1 + dice.Below(style.most_digits);
  constexpr int kTries = 12;
  for (int i = 0; i < kTries && static_cast<int>(scene.objects.size()) < wanted; ++i) {
    const int digit = dice.Below(10);
    const cv::Mat strokes = DrawScaled(digit, style, &dice);
    if (strokes.empty()) continue;
    const cv::Rect box = FindPlace(scene, strokes.size(), side, &dice);
    if (box.area() == 0) continue;
    const cv::Vec3d color = DrawColor(bright ? 170 : 0, bright ? 255 : 85, &dice);
    Paint(strokes, box, color, digit, &picture, &scene);
  }
  AddNoise(&picture, &dice);
  picture.convertTo(scene.picture, CV_8UC3);
  return scene;
}

}  // namespace crema::tools
