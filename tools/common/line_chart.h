// Draws line charts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/chart_axis.h"

namespace crema::tools {

struct ChartSeries {
  std::string name;  // for the legend, shown if there are several series
  std::vector<double> x;
  std::vector<double> y;  // one per x; NaN, infinity, and values <= 0 on a log axis are gaps
  bool faint = false;     // thin and pale, for the background
};

// A vertical line with a label.
struct ChartMark {
  double x = 0;
  std::string label;
};

struct LineChart {
  std::string title;
  std::string note;  // a smaller line below the title
  std::string x_label;
  std::string y_label;
  AxisScale x_scale = AxisScale::kLinear;
  AxisScale y_scale = AxisScale::kLinear;
  bool y_from_zero = false;      // the linear y axis begins at 0, unless a value is below
  std::optional<double> y_most;  // larger values are clipped
  std::vector<ChartSeries> series;
  std::vector<ChartMark> marks;
  int width = 1000;  // of the picture, in pixels
  int height = 560;
};

// Writes a PNG. Requires: ASCII text. Throws kUnsupported in a build without OpenCV,
// kInvalidArgument if no value can be shown, kIoFailure.
void WritePng(const LineChart& chart, const std::string& path);

// Throws like WritePng for the build, or for a name that does not end in .png. Call it before a
// long computation.
void CheckPng(const std::string& path);

}  // namespace crema::tools
