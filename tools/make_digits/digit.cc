#include "make_digits/digit.h"

#include <array>
#include <cmath>
#include <numbers>
#include <opencv2/imgproc.hpp>
#include <string>

#include "data/pipeline/shuffle.h"

namespace crema::tools {
namespace {

constexpr int kCanvas = 4 * kDigitSide;  // drawn large, then averaged down
constexpr int kGrid = 5;                 // points of the elastic warp along one side

// The upright digit in the middle of the canvas.
cv::Mat DrawGlyph(int label, Dice* dice) {
  constexpr std::array kFonts = {cv::FONT_HERSHEY_SIMPLEX,        cv::FONT_HERSHEY_PLAIN,
                                 cv::FONT_HERSHEY_DUPLEX,         cv::FONT_HERSHEY_COMPLEX,
                                 cv::FONT_HERSHEY_TRIPLEX,        cv::FONT_HERSHEY_COMPLEX_SMALL,
                                 cv::FONT_HERSHEY_SCRIPT_SIMPLEX, cv::FONT_HERSHEY_SCRIPT_COMPLEX};
  int font = kFonts[static_cast<size_t>(dice->Below(static_cast<int>(kFonts.size())))];
  if (dice->Chance(0.3)) font |= cv::FONT_ITALIC;
  const int thickness = 4 + dice->Below(8);
  const double height = dice->Uniform(0.62, 0.78) * kCanvas;

  const std::string text(1, static_cast<char>('0' + label));
  int baseline = 0;
  const cv::Size unit = cv::getTextSize(text, font, 1, 1, &baseline);
  const double scale = (height - thickness) / unit.height;
  const cv::Size size = cv::getTextSize(text, font, scale, thickness, &baseline);
  cv::Mat canvas = cv::Mat::zeros(kCanvas, kCanvas, CV_8U);
  const cv::Point corner((kCanvas - size.width) / 2, (kCanvas + size.height) / 2);
  cv::putText(canvas, text, corner, font, scale, cv::Scalar(255), thickness, cv::LINE_AA);
  return canvas;
}

// Rows of the matrix from warped to upright coordinates, both about the middle of the canvas.
struct Affine {
  double xx, xy, yx, yy;  // source offset = matrix * target offset
  double dx, dy;          // target shift, in canvas pixels
};

Affine DrawAffine(Dice* dice) {
  const double angle = dice->Uniform(-15, 15) * std::numbers::pi / 180;
  const double shear = dice->Uniform(-0.25, 0.25);
  const double wide = dice->Uniform(0.75, 1.15);
  const double high = dice->Uniform(0.8, 1.15);
  const double dx = dice->Uniform(-2, 2) * kCanvas / kDigitSide;
  const double dy = dice->Uniform(-2, 2) * kCanvas / kDigitSide;
  const double c = std::cos(angle);
  const double s = std::sin(angle);
  return {(c - shear * s) / wide, (s + shear * c) / wide, -s / high, c / high, dx, dy};
}

// Smooth random offsets, in canvas pixels.
cv::Mat DrawElastic(Dice* dice) {
  const double strength = dice->Uniform(1, 4);
  cv::Mat coarse(kGrid, kGrid, CV_32FC2);
  for (int y = 0; y < kGrid; ++y) {
    for (int x = 0; x < kGrid; ++x) {
      const double across = dice->Gaussian(strength);
      const double down = dice->Gaussian(strength);
      coarse.at<cv::Vec2f>(y, x) = {static_cast<float>(across), static_cast<float>(down)};
    }
  }
  cv::Mat offsets;
  cv::resize(coarse, offsets, cv::Size(kCanvas, kCanvas), 0, 0, cv::INTER_CUBIC);
  return offsets;
}

cv::Mat Warp(const cv::Mat& glyph, Dice* dice) {
  const Affine affine = DrawAffine(dice);
  cv::Mat map = DrawElastic(dice);
  const double middle = (kCanvas - 1) / 2.0;
  for (int y = 0; y < kCanvas; ++y) {
    auto* row = map.ptr<cv::Vec2f>(y);
    for (int x = 0; x < kCanvas; ++x) {
      const double u = x - middle - affine.dx;
      const double v = y - middle - affine.dy;
      row[x][0] += static_cast<float>(middle + affine.xx * u + affine.xy * v);
      row[x][1] += static_cast<float>(middle + affine.yx * u + affine.yy * v);
    }
  }
  cv::Mat warped;
  cv::remap(glyph, warped, map, cv::noArray(), cv::INTER_LINEAR, cv::BORDER_CONSTANT);
  return warped;
}

// A stroke near the border that belongs to no digit.
void DrawClutter(cv::Mat* canvas, Dice* dice) {
  const int x = dice->Below(kCanvas);
  const int y =
      dice->Chance(0.5) ? dice->Below(kCanvas / 8) : kCanvas - 1 - dice->Below(kCanvas / 8);
  const int across = dice->Below(kCanvas / 2) - kCanvas / 4;
  const int down = dice->Below(kCanvas / 8) - kCanvas / 16;
  const int thickness = 2 + dice->Below(5);
  const bool upright = dice->Chance(0.5);
  const cv::Point from = upright ? cv::Point(y, x) : cv::Point(x, y);
  const cv::Point step = upright ? cv::Point(down, across) : cv::Point(across, down);
  cv::line(*canvas, from, from + step, cv::Scalar(200), thickness, cv::LINE_AA);
}

}  // namespace

cv::Mat DrawStrokes(int label, Dice* dice) { return Warp(DrawGlyph(label, dice), dice); }

cv::Mat DrawDigit(uint64_t seed, uint64_t index, int label) {
  Dice dice(seed, index);
  cv::Mat canvas = DrawStrokes(label, &dice);
  if (dice.Chance(0.1)) DrawClutter(&canvas, &dice);
  const double blur = dice.Uniform(0.5, 3.5);
  cv::GaussianBlur(canvas, canvas, cv::Size(), blur);
  cv::Mat small;
  cv::resize(canvas, small, cv::Size(kDigitSide, kDigitSide), 0, 0, cv::INTER_AREA);

  const double white = dice.Uniform(140, 255);
  const double black = dice.Uniform(0, 40);
  const double noise = dice.Uniform(0, 20);
  for (int y = 0; y < kDigitSide; ++y) {
    auto* row = small.ptr<uint8_t>(y);
    for (int x = 0; x < kDigitSide; ++x) {
      const double value = black + (white - black) * row[x] / 255 + dice.Gaussian(noise);
      row[x] = cv::saturate_cast<uint8_t>(value);
    }
  }
  return small;
}

int LabelOfDigit(uint64_t seed, uint64_t index) {
  const RandomStream random(seed, HashName("labels"), index / 10);
  return static_cast<int>(Permutation(10, random)[index % 10]);
}

}  // namespace crema::tools
