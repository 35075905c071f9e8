// An axis of a chart: its range and ticks.
#pragma once

#include <string>
#include <vector>

namespace crema::tools {

enum class AxisScale { kLinear, kLog };

struct AxisTick {
  double value = 0;
  std::string label;  // empty: a small tick
};

struct ChartAxis {
  AxisScale scale = AxisScale::kLinear;
  double low = 0;
  double high = 1;
  std::vector<AxisTick> ticks;  // ascending, within low..high

  // Maps low to 0 and high to 1. NaN for values that a log axis cannot show.
  double Place(double value) const;
};

enum class AxisEnds {
  kData,   // slightly beyond the data
  kTicks,  // slightly beyond the next tick
};

// Makes about `count` labels at round numbers. Requires: least <= most, both finite; above 0 for
// kLog.
ChartAxis MakeAxis(AxisScale scale, double least, double most, AxisEnds ends, int count);

}  // namespace crema::tools
