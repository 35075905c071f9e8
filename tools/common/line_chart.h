// Curves as a picture.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/chart_axis.h"

namespace crema::tools {

struct ChartSeries {
  std::string name;  // for the legend, which several series get
  std::vector<double> x;
  std::vector<double> y;  // as many; what is not finite, or not above 0 on a log axis, is a gap
  bool faint = false;     // thin and pale, to lie behind another
};

// A vertical line with words beside it.
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
  bool y_from_zero = false;      // a linear y axis that begins at 0, where no value is below
  std::optional<double> y_most;  // values above are cut off
  std::vector<ChartSeries> series;
  std::vector<ChartMark> marks;
  int width = 1000;  // of the picture, in pixels
  int height = 560;
};

// Writes a PNG. Text is ASCII. Throws kUnsupported in a build without OpenCV, kInvalidArgument when
// no value can be shown, kIoFailure.
void WritePng(const LineChart& chart, const std::string& path);

// Throws what WritePng would throw for the build or for a name that does not end in .png: to be
// called before a long computation.
void CheckPng(const std::string& path);

}  // namespace crema::tools
