// Excluded from builds without OpenCV; see draw_boxes.cc.
#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <opencv2/imgproc.hpp>
#include <vector>

#include "core/error.h"
#include "core/strings.h"
#include "data/image/codecs_opencv.h"
#include "data/image/draw_boxes.h"
#include "data/image/mat_opencv.h"

namespace crema {
namespace {

// BGR; bright enough for black letters.
const std::array<cv::Scalar, 6> kColors = {cv::Scalar(80, 220, 80),  cv::Scalar(60, 180, 255),
                                           cv::Scalar(255, 190, 80), cv::Scalar(210, 140, 255),
                                           cv::Scalar(80, 240, 240), cv::Scalar(230, 230, 110)};

const cv::Scalar& ColorOf(const CaptionedBox& box) {
  return kColors[static_cast<size_t>(std::abs(static_cast<int64_t>(box.color))) % kColors.size()];
}

int Pixel(double v) { return static_cast<int>(std::lround(v)); }

cv::Size TextSize(const std::string& text, double scale, int* baseline) {
  return cv::getTextSize(text, cv::FONT_HERSHEY_SIMPLEX, scale, 1, baseline);
}

// As wide as its box, between a legible and a reasonable font size. Above the box, or inside if
// there is no room above. Left out where it would cover one of `drawn`, to which it is added.
void DrawCaption(const CaptionedBox& box, std::vector<cv::Rect>* drawn, cv::Mat* picture) {
  int baseline = 0;
  const double full = std::max(1, TextSize(box.caption, 1, &baseline).width);
  const double scale = std::clamp((box.box.xmax - box.box.xmin) / full, 0.3, 0.8);
  const cv::Size size = TextSize(box.caption, scale, &baseline);
  const int height = size.height + 4;
  const int left = std::clamp(Pixel(box.box.xmin), 0, std::max(0, picture->cols - size.width));
  const int from = Pixel(box.box.ymin);
  const int top = from >= height ? from - height : from;
  const cv::Rect place(left, top, size.width, height);
  const auto covers = [&](const cv::Rect& other) { return (place & other).area() > 0; };
  if (std::ranges::any_of(*drawn, covers)) return;
  drawn->push_back(place);
  cv::rectangle(*picture, place, ColorOf(box), cv::FILLED);
  cv::putText(*picture, box.caption, {left, top + size.height + 2}, cv::FONT_HERSHEY_SIMPLEX, scale,
              cv::Scalar(0, 0, 0), 1, cv::LINE_AA);
}

// And its dots. A thin line is lost when a large picture is shown small.
void DrawFrame(const CaptionedBox& box, cv::Mat* picture) {
  constexpr int kLarge = 600;
  const int thickness = std::max(std::max(picture->rows, picture->cols) > kLarge ? 2 : 1,
                                 std::min(picture->rows, picture->cols) / 400);
  cv::rectangle(*picture, cv::Point(Pixel(box.box.xmin), Pixel(box.box.ymin)),
                cv::Point(Pixel(box.box.xmax), Pixel(box.box.ymax)), ColorOf(box), thickness);
  for (const auto& [x, y] : box.points) {
    const cv::Point at(Pixel(x), Pixel(y));
    if (!cv::Rect(0, 0, picture->cols, picture->rows).contains(at)) continue;
    cv::circle(*picture, at, 2 * thickness + 1, ColorOf(box), cv::FILLED);
  }
}

}  // namespace

void DrawBoxes(std::span<const CaptionedBox> boxes, Image* picture) {
  cv::Mat merged = MergePlanes(*picture);
  constexpr double kLowestWithCaption = 20;
  std::vector<cv::Rect> captions;
  for (const CaptionedBox& box : boxes) {
    if (box.box.ymax - box.box.ymin >= kLowestWithCaption) DrawCaption(box, &captions, &merged);
  }
  for (const CaptionedBox& box : boxes) DrawFrame(box, &merged);
  SplitPlanes(merged, picture);
}

void DrawBars(std::span<const CaptionedBar> bars, Image* picture) {
  cv::Mat merged = MergePlanes(*picture);
  const int line = std::clamp(picture->height / 16, 10, 40);
  const double scale = line / 32.0;
  for (size_t i = 0; i < bars.size(); ++i) {
    const int top = static_cast<int>(i) * line;
    if (top + line > picture->height) break;
    const cv::Rect row(0, top, picture->width, line);
    merged(row) *= 0.35;  // keeps the letters legible on any picture
    const double share = std::clamp(bars[i].share, 0.0, 1.0);
    const cv::Rect bar(0, top + 1, Pixel(share * picture->width), line - 2);
    const auto [red, green, blue] = bars[i].color;
    cv::rectangle(merged, bar, cv::Scalar(blue, green, red), cv::FILLED);
    cv::putText(merged, bars[i].caption, {line / 4, top + line * 3 / 4}, cv::FONT_HERSHEY_SIMPLEX,
                scale, cv::Scalar(255, 255, 255), 1, cv::LINE_AA);
  }
  SplitPlanes(merged, picture);
}

std::string EncodePicture(const Image& picture, const std::string& path) {
  const std::string extension = std::filesystem::path(path).extension().string();
  std::vector<uint8_t> file;
  bool written = false;
  try {
    written = LoadedImageCodecs().Encode(extension, MergePlanes(picture), &file, {});
  } catch (const cv::Exception&) {
    written = false;  // reported below
  }
  if (!written) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("no picture format has the extension '", extension, "'; .png or .jpg will do"),
         {.file = path});
  }
  return {file.begin(), file.end()};
}

}  // namespace crema
