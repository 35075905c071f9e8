// An axis of a chart: its range, and where it has ticks.
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
  std::vector<AxisTick> ticks;  // ascending, inside of low..high

  // 0 at low, 1 at high; outside of them beyond. NaN for what a log axis cannot show.
  double Place(double value) const;
};

enum class AxisEnds {
  kData,   // a little beyond the data
  kTicks,  // a little beyond the next tick
};

// About `count` labels at round numbers. Requires: least <= most, both finite; above 0 for kLog.
ChartAxis MakeAxis(AxisScale scale, double least, double most, AxisEnds ends, int count);

}  // namespace crema::tools
