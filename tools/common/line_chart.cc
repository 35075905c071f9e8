#include "common/line_chart.h"

#include <filesystem>

#include "core/error.h"
#include "core/strings.h"
#include "format/file.h"

#ifdef CREMA_HAVE_OPENCV
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <opencv2/imgproc.hpp>
#include <utility>

#include "data/image/codecs_opencv.h"
#endif

namespace crema::tools {

void CheckPng(const std::string& path) {
#ifndef CREMA_HAVE_OPENCV
  Fail(ErrorCode::kUnsupported,
       "--png: this build is without OpenCV, which draws pictures; write --csv, or build with "
       "OpenCV");
#endif
  if (std::filesystem::path(path).extension() != ".png") {
    Fail(ErrorCode::kInvalidArgument, StrCat("--png is '", path, "'; it ends in .png"));
  }
}

#ifdef CREMA_HAVE_OPENCV
namespace {

// Draws at three times the size and scales down, for smooth lines and letters.
constexpr int kZoom = 3;
constexpr int kLeftMargin = 90;
constexpr int kRightMargin = 30;
constexpr int kTopMargin = 84;
constexpr int kBottomMargin = 62;
constexpr double kBody = 0.46;  // scale of Hershey letters
constexpr double kTitle = 0.64;

const cv::Scalar kInk(45, 45, 45);
const cv::Scalar kGray(120, 120, 120);
const cv::Scalar kGrid(230, 230, 230);
const cv::Scalar kFineGrid(243, 243, 243);
const std::array<cv::Scalar, 5> kColors = {cv::Scalar(180, 100, 30), cv::Scalar(30, 110, 230),
                                           cv::Scalar(80, 150, 50), cv::Scalar(150, 70, 140),
                                           cv::Scalar(60, 60, 200)};
const cv::Scalar kFaint(216, 190, 165);
const cv::Scalar kMarkColor(40, 40, 200);

enum class Align { kLeft, kCenter, kRight };

struct Range {
  double least = std::numeric_limits<double>::infinity();
  double most = -std::numeric_limits<double>::infinity();
};

bool CanShow(double value, AxisScale scale) {
  return std::isfinite(value) && (scale == AxisScale::kLinear || value > 0);
}

class Painter {
 public:
  explicit Painter(const LineChart& chart)
      : chart_(chart),
        image_(chart.height * kZoom, chart.width * kZoom, CV_8UC3, cv::Scalar(255, 255, 255)),
        plot_(kLeftMargin * kZoom, kTopMargin * kZoom,
              (chart.width - kLeftMargin - kRightMargin) * kZoom,
              (chart.height - kTopMargin - kBottomMargin) * kZoom) {
    MakeAxes();
  }

  cv::Mat Paint() {
    PaintGrid();
    for (const bool faint : {true, false}) PaintSeries(faint);
    PaintMarks();
    cv::rectangle(image_, plot_, kGray, kZoom, cv::LINE_AA);
    PaintWords();
    cv::Mat small;
    cv::resize(image_, small, cv::Size(chart_.width, chart_.height), 0, 0, cv::INTER_AREA);
    return small;
  }

 private:
  void MakeAxes() {
    Range x;
    Range y;
    const auto widen = [](Range* range, double value) {
      range->least = std::min(range->least, value);
      range->most = std::max(range->most, value);
    };
    for (const ChartSeries& series : chart_.series) {
      CREMA_CHECK(series.x.size() == series.y.size());
      for (size_t i = 0; i < series.x.size(); ++i) {
        if (!CanShow(series.x[i], chart_.x_scale)) continue;
        if (!CanShow(series.y[i], chart_.y_scale)) continue;
        widen(&x, series.x[i]);
        widen(&y, series.y[i]);
      }
    }
    if (x.least > x.most) {
      Fail(ErrorCode::kInvalidArgument,
           StrCat("nothing to draw: no finite value of ", chart_.y_label));
    }
    if (chart_.y_most) y.most = std::max(y.least, std::min(y.most, *chart_.y_most));
    if (chart_.y_from_zero && chart_.y_scale == AxisScale::kLinear && y.least > 0) y.least = 0;
    x_ = MakeAxis(chart_.x_scale, x.least, x.most, AxisEnds::kData, 9);
    y_ = MakeAxis(chart_.y_scale, y.least, y.most, AxisEnds::kTicks, 7);
  }

  // Within the plot, in pixels of the enlarged picture.
  cv::Point2d At(double x, double y) const {
    return {x_.Place(x) * plot_.width, (1 - y_.Place(y)) * plot_.height};
  }

  // With a white outline, to be legible on lines.
  void Text(const std::string& text, cv::Point at, Align align, double scale,
            const cv::Scalar& color) {
    int base = 0;
    const int thickness = scale > kBody ? 5 : 3;
    const cv::Size size =
        cv::getTextSize(text, cv::FONT_HERSHEY_SIMPLEX, scale * kZoom, thickness, &base);
    if (align == Align::kCenter) at.x -= size.width / 2;
    if (align == Align::kRight) at.x -= size.width;
    cv::putText(image_, text, at, cv::FONT_HERSHEY_SIMPLEX, scale * kZoom,
                cv::Scalar(255, 255, 255), thickness + 4 * kZoom, cv::LINE_AA);
    cv::putText(image_, text, at, cv::FONT_HERSHEY_SIMPLEX, scale * kZoom, color, thickness,
                cv::LINE_AA);
  }

  int WidthOf(const std::string& text, double scale) const {
    int base = 0;
    return cv::getTextSize(text, cv::FONT_HERSHEY_SIMPLEX, scale * kZoom, 3, &base).width;
  }

  void PaintGrid() {
    for (const bool small : {true, false}) {
      for (const AxisTick& tick : x_.ticks) {
        if (tick.label.empty() != small) continue;
        const int x = plot_.x + static_cast<int>(x_.Place(tick.value) * plot_.width);
        cv::line(image_, {x, plot_.y}, {x, plot_.br().y}, small ? kFineGrid : kGrid, kZoom);
        Text(tick.label, {x, plot_.br().y + 20 * kZoom}, Align::kCenter, kBody, kInk);
      }
      for (const AxisTick& tick : y_.ticks) {
        if (tick.label.empty() != small) continue;
        const int y = plot_.br().y - static_cast<int>(y_.Place(tick.value) * plot_.height);
        cv::line(image_, {plot_.x, y}, {plot_.br().x, y}, small ? kFineGrid : kGrid, kZoom);
        Text(tick.label, {plot_.x - 9 * kZoom, y + 5 * kZoom}, Align::kRight, kBody, kInk);
      }
    }
  }

  cv::Scalar ColorOf(size_t series) const {
    if (chart_.series[series].faint) return kFaint;
    size_t index = 0;
    for (size_t s = 0; s < series; ++s) index += chart_.series[s].faint ? 0 : 1;
    return kColors[index % kColors.size()];
  }

  // Clips to the part of the picture inside the axes.
  void PaintSeries(bool faint) {
    cv::Mat inside = image_(plot_);
    for (size_t s = 0; s < chart_.series.size(); ++s) {
      const ChartSeries& series = chart_.series[s];
      if (series.faint != faint) continue;
      std::vector<cv::Point> line;
      for (size_t i = 0; i < series.x.size(); ++i) {
        const cv::Point2d at = At(series.x[i], series.y[i]);
        if (!std::isfinite(at.x) || !std::isfinite(at.y)) {
          PaintLine(inside, line, series.faint, ColorOf(s));
          line.clear();
          continue;
        }
        // OpenCV uses int coordinates; far outside is sufficient.
        const cv::Point point(static_cast<int>(std::lround(at.x)),
                              static_cast<int>(std::lround(std::clamp(at.y, -20000.0, 20000.0))));
        if (line.empty() || line.back() != point) line.push_back(point);
      }
      PaintLine(inside, line, series.faint, ColorOf(s));
    }
  }

  static void PaintLine(cv::Mat& inside, const std::vector<cv::Point>& line, bool faint,
                        const cv::Scalar& color) {
    const int thickness = faint ? kZoom : 2 * kZoom;
    if (line.size() == 1) cv::circle(inside, line[0], 2 * kZoom, color, cv::FILLED, cv::LINE_AA);
    if (line.size() > 1) cv::polylines(inside, line, false, color, thickness, cv::LINE_AA);
  }

  void PaintMarks() {
    for (const ChartMark& mark : chart_.marks) {
      const double place = x_.Place(mark.x);
      if (!(place >= 0 && place <= 1)) continue;
      const int x = plot_.x + static_cast<int>(place * plot_.width);
      for (int y = plot_.y; y < plot_.br().y; y += 8 * kZoom) {
        const int end = std::min(y + 4 * kZoom, plot_.br().y);
        cv::line(image_, {x, y}, {x, end}, kMarkColor, kZoom + 1, cv::LINE_AA);
      }
      // The last label is right of its line, the others left of theirs if there is room.
      const int gap = 6 * kZoom;
      const int width = WidthOf(mark.label, kBody) + gap;
      bool right = &mark == &chart_.marks.back();
      if (right && x + width > plot_.br().x) right = false;
      if (!right && x - width < plot_.x) right = true;
      Text(mark.label, {right ? x + gap : x - gap, plot_.y + 18 * kZoom},
           right ? Align::kLeft : Align::kRight, kBody, kMarkColor);
    }
  }

  void PaintWords() {
    Text(chart_.title, {kLeftMargin * kZoom, 30 * kZoom}, Align::kLeft, kTitle, kInk);
    Text(chart_.note, {kLeftMargin * kZoom, 50 * kZoom}, Align::kLeft, kBody, kGray);
    Text(chart_.y_label, {kLeftMargin * kZoom, (kTopMargin - 9) * kZoom}, Align::kLeft, kBody,
         kInk);
    Text(chart_.x_label, {plot_.x + plot_.width / 2, (chart_.height - 16) * kZoom}, Align::kCenter,
         kBody, kInk);
    if (chart_.series.size() > 1) PaintLegend();
  }

  // Above the plot, right-aligned.
  void PaintLegend() {
    int x = plot_.br().x;
    const int y = (kTopMargin - 9) * kZoom;
    for (size_t s = chart_.series.size(); s-- > 0;) {
      const std::string& name = chart_.series[s].name;
      Text(name, {x, y}, Align::kRight, kBody, kInk);
      x -= WidthOf(name, kBody) + 6 * kZoom;
      cv::line(image_, {x - 22 * kZoom, y - 4 * kZoom}, {x, y - 4 * kZoom}, ColorOf(s),
               (chart_.series[s].faint ? 1 : 2) * kZoom, cv::LINE_AA);
      x -= 40 * kZoom;
    }
  }

  const LineChart& chart_;
  cv::Mat image_;
  cv::Rect plot_;
  ChartAxis x_;
  ChartAxis y_;
};

}  // namespace

void WritePng(const LineChart& chart, const std::string& path) {
  CheckPng(path);
  std::vector<uchar> bytes;
  if (!LoadedImageCodecs().Encode(".png", Painter(chart).Paint(), &bytes, {})) {
    Fail(ErrorCode::kIoFailure, StrCat("the picture ", path, " could not be encoded"));
  }
  WriteFileAtomically(path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

#else

void WritePng(const LineChart&, const std::string& path) { CheckPng(path); }

#endif

}  // namespace crema::tools
