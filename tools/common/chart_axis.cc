#include "common/chart_axis.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "core/error.h"

namespace crema::tools {
namespace {

std::string Label(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.7g", value);
  return text;
}

// Returns 1, 2 or 5 times a power of ten, at least `least`.
double RoundStep(double least) {
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

// Share of the range added at both ends, so that no line coincides with the frame.
constexpr double kMargin = 0.025;
constexpr double kSlack = 1e-6;  // rounding tolerance, relative to a step

ChartAxis Linear(double least, double most, AxisEnds ends, int count) {
  if (least == most) {
    const double room = least == 0 ? 1 : std::abs(least) / 2;
    if (least != 0) least -= room;
    most += room;
  }
  const double step = RoundStep((most - least) / count);
  if (ends == AxisEnds::kTicks) {
    least = std::floor(least / step + kSlack) * step;
    most = std::ceil(most / step - kSlack) * step;
  }
  const double margin = kMargin * (most - least);
  ChartAxis axis{
      .scale = AxisScale::kLinear, .low = least - margin, .high = most + margin, .ticks = {}};
  const double last = std::floor(axis.high / step + kSlack);
  for (double i = std::ceil(axis.low / step - kSlack); i <= last; ++i) {
    const double value = i == 0 ? 0 : i * step;  // avoids -0
    axis.ticks.push_back({value, Label(value)});
  }
  return axis;
}

// Labels decades, as many as fit; 2 to 9 have small ticks, with labels if there are few decades.
ChartAxis Log(double least, double most, AxisEnds ends, int count) {
  const double first = std::floor(std::log10(least) + kSlack);
  const double last = std::max(std::ceil(std::log10(most) - kSlack), first + 1);
  if (ends == AxisEnds::kTicks || least == most) {
    least = std::pow(10, first);
    most = std::pow(10, last);
  }
  const double margin = std::pow(most / least, kMargin);
  ChartAxis axis{
      .scale = AxisScale::kLog, .low = least / margin, .high = most * margin, .ticks = {}};
  const double decades = last - first;
  const double every = std::max(1.0, std::ceil(decades / count));
  for (double k = first - 1; k <= last; ++k) {
    for (int digit = 1; digit <= 9; ++digit) {
      const double value = digit * std::pow(10, k);
      if (value < axis.low || value > axis.high || (every > 1 && digit > 1)) continue;
      const bool is_decade = digit == 1 && std::fmod(k - first, every) == 0;
      const bool is_between = decades <= 2 && (digit == 2 || digit == 5);
      axis.ticks.push_back({value, is_decade || is_between ? Label(value) : ""});
    }
  }
  return axis;
}

}  // namespace

double ChartAxis::Place(double value) const {
  if (scale == AxisScale::kLinear) return (value - low) / (high - low);
  if (!(value > 0)) return std::numeric_limits<double>::quiet_NaN();
  return std::log(value / low) / std::log(high / low);
}

ChartAxis MakeAxis(AxisScale scale, double least, double most, AxisEnds ends, int count) {
  CREMA_CHECK(std::isfinite(least) && std::isfinite(most) && least <= most && count > 0);
  if (scale == AxisScale::kLinear) return Linear(least, most, ends, count);
  CREMA_CHECK(least > 0);
  return Log(least, most, ends, count);
}

}  // namespace crema::tools
