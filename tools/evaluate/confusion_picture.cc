#include "evaluate/confusion_picture.h"

#include <algorithm>
#include <array>
#include <cmath>

#ifdef CREMA_HAVE_OPENCV
#include <opencv2/imgproc.hpp>
#endif

namespace crema::tools {
namespace {

constexpr int64_t kMostNamed = 40;  // classes
// Pixels.
constexpr int kEdge = 12;    // around the picture
constexpr int kTitle = 24;   // of an axis
constexpr int kNames = 120;  // of classes, at most
using Color = std::array<uint8_t, 3>;

struct Layout {
  int cell = 1;
  int left = 0;  // of the first cell
  int top = 0;
  int names = 0;  // length of their strips
};

#ifdef CREMA_HAVE_OPENCV
constexpr int kFont = cv::FONT_HERSHEY_SIMPLEX;
constexpr double kLargestText = 0.45;
constexpr int kAroundText = 12;

int WidthOf(const std::string& text, double scale) {
  int baseline = 0;
  return cv::getTextSize(text, kFont, scale, 1, &baseline).width;
}
#endif

Layout LayoutFor(int64_t classes, [[maybe_unused]] const ClassNames& names) {
#ifdef CREMA_HAVE_OPENCV
  if (classes <= kMostNamed) {
    int longest = 0;
    for (int64_t i = 0; i < classes; ++i) {
      longest = std::max(longest, WidthOf(names.Of(i), kLargestText) + kAroundText);
    }
    longest = std::min(longest, kNames);
    const int before = kEdge + kTitle + longest;
    return {.cell = classes <= 12 ? 48 : 28, .left = before, .top = before, .names = longest};
  }
#endif
  return {.cell = static_cast<int>(std::max<int64_t>(1, 960 / std::max<int64_t>(1, classes))),
          .left = kEdge,
          .top = kEdge};
}

// White to blue; the square root makes rare mistakes visible.
Color ColorOf(double share) {
  const double depth = std::sqrt(share);
  const auto mix = [&](double end) {
    return static_cast<uint8_t>(std::lround(255 + (end - 255) * depth));
  };
  return {mix(8), mix(69), mix(148)};
}

double ShareOf(const ConfusionMatrix& matrix, int64_t truth, int64_t predicted) {
  const auto support = static_cast<double>(std::max<int64_t>(1, matrix.Support(truth)));
  return static_cast<double>(matrix.Count(truth, predicted)) / support;
}

void FillCell(int x, int y, const Layout& layout, const Color& color, Picture* picture) {
  const int gap = layout.cell > 8 ? 1 : 0;
  for (int v = 0; v < layout.cell - gap; ++v) {
    for (int u = 0; u < layout.cell - gap; ++u) {
      const int at =
          (layout.top + y * layout.cell + v) * picture->width + layout.left + x * layout.cell + u;
      std::ranges::copy(color, picture->pixels.begin() + int64_t{at} * 3);
    }
  }
}

#ifdef CREMA_HAVE_OPENCV

// Returns the largest scale that fits.
double ScaleFor(const std::string& text, int width) {
  return std::min(kLargestText, static_cast<double>(width) / std::max(1, WidthOf(text, 1)));
}

void Put(const std::string& text, double scale, cv::Point at, const cv::Scalar& color,
         cv::Mat* canvas) {
  cv::putText(*canvas, text, at, kFont, scale, color, 1, cv::LINE_AA);
}

// `text` right-aligned in a strip of the height of a cell; rotated strips become column names.
cv::Mat NameStrip(const std::string& text, const Layout& layout) {
  cv::Mat strip(layout.cell, layout.names, CV_8UC3, cv::Scalar::all(255));
  int baseline = 0;
  const double scale = ScaleFor(text, layout.names - kAroundText);
  const cv::Size size = cv::getTextSize(text, kFont, scale, 1, &baseline);
  Put(text, scale, {layout.names - kAroundText / 2 - size.width, (layout.cell + size.height) / 2},
      cv::Scalar::all(40), &strip);
  return strip;
}

cv::Mat TitleStrip(const std::string& text, int width) {
  cv::Mat strip(kTitle, width, CV_8UC3, cv::Scalar::all(255));
  int baseline = 0;
  const double scale = ScaleFor(text, width);
  const cv::Size size = cv::getTextSize(text, kFont, scale, 1, &baseline);
  Put(text, scale, {(width - size.width) / 2, (kTitle + size.height) / 2}, cv::Scalar::all(110),
      &strip);
  return strip;
}

void WriteTitles(const Layout& layout, int side, cv::Mat* canvas) {
  if (side == 0) return;
  TitleStrip("predicted class", side).copyTo((*canvas)(cv::Rect(layout.left, kEdge, side, kTitle)));
  cv::Mat turned;
  cv::rotate(TitleStrip("true class", side), turned, cv::ROTATE_90_COUNTERCLOCKWISE);
  turned.copyTo((*canvas)(cv::Rect(kEdge, layout.top, kTitle, side)));
}

void WriteTexts(const ConfusionMatrix& matrix, const ClassNames& names, const Layout& layout,
                Picture* picture) {
  cv::Mat canvas(picture->height, picture->width, CV_8UC3, picture->pixels.data());
  const int cell = layout.cell;
  for (int64_t t = 0; t < matrix.classes(); ++t) {
    const int at = static_cast<int>(t) * cell;
    const cv::Mat name = NameStrip(names.Of(t), layout);
    name.copyTo(canvas(cv::Rect(layout.left - layout.names, layout.top + at, layout.names, cell)));
    cv::Mat turned;
    cv::rotate(name, turned, cv::ROTATE_90_CLOCKWISE);
    turned.copyTo(
        canvas(cv::Rect(layout.left + at, layout.top - layout.names, cell, layout.names)));
    for (int64_t p = 0; p < matrix.classes(); ++p) {
      if (matrix.Count(t, p) == 0) continue;
      const std::string count = std::to_string(matrix.Count(t, p));
      int baseline = 0;
      const double scale = ScaleFor(count, cell - 8);
      const cv::Size size = cv::getTextSize(count, kFont, scale, 1, &baseline);
      const cv::Scalar ink = cv::Scalar::all(ShareOf(matrix, t, p) > 0.25 ? 255 : 40);
      Put(count, scale,
          {layout.left + static_cast<int>(p) * cell + (cell - size.width) / 2,
           layout.top + at + (cell + size.height) / 2},
          ink, &canvas);
    }
  }
  WriteTitles(layout, cell * static_cast<int>(matrix.classes()), &canvas);
}

#endif

}  // namespace

Picture DrawConfusion(const ConfusionMatrix& matrix, const ClassNames& names) {
  const Layout layout = LayoutFor(matrix.classes(), names);
  const int side = layout.cell * static_cast<int>(matrix.classes());
  Picture picture{.width = layout.left + side + kEdge,
                  .height = layout.top + side + kEdge,
                  .channels = 3,
                  .pixels = {}};
  picture.pixels.assign(
      static_cast<size_t>(picture.width) * static_cast<size_t>(picture.height) * 3, 255);
  for (int64_t t = 0; t < matrix.classes(); ++t) {
    for (int64_t p = 0; p < matrix.classes(); ++p) {
      FillCell(static_cast<int>(p), static_cast<int>(t), layout, ColorOf(ShareOf(matrix, t, p)),
               &picture);
    }
  }
#ifdef CREMA_HAVE_OPENCV
  if (matrix.classes() <= kMostNamed) WriteTexts(matrix, names, layout, &picture);
#endif
  return picture;
}

}  // namespace crema::tools
