#include "common/chart_axis.h"

#include <gtest/gtest.h>

#include <cmath>

namespace crema::tools {
namespace {

// The labels that are there, in order.
std::string LabelsOf(const ChartAxis& axis) {
  std::string labels;
  for (const AxisTick& tick : axis.ticks) {
    if (!tick.label.empty()) labels += (labels.empty() ? "" : " ") + tick.label;
  }
  return labels;
}

std::string Linear(double least, double most, AxisEnds ends = AxisEnds::kTicks) {
  return LabelsOf(MakeAxis(AxisScale::kLinear, least, most, ends, 7));
}

std::string Log(double least, double most, AxisEnds ends = AxisEnds::kTicks) {
  return LabelsOf(MakeAxis(AxisScale::kLog, least, most, ends, 9));
}

TEST(ChartAxis, LinearTicksAreRoundNumbers) {
  EXPECT_EQ(Linear(0, 0.1), "0 0.02 0.04 0.06 0.08 0.1");
  EXPECT_EQ(Linear(0, 9999), "0 2000 4000 6000 8000 10000");
  EXPECT_EQ(Linear(0, 9999, AxisEnds::kData), "0 2000 4000 6000 8000 10000");
  EXPECT_EQ(Linear(-1, 2.3), "-1 -0.5 0 0.5 1 1.5 2 2.5");
  EXPECT_EQ(Linear(3e-7, 4.1e-6), "0 1e-06 2e-06 3e-06 4e-06 5e-06");
  EXPECT_EQ(Linear(0, 0.4F), "0 0.1 0.2 0.3 0.4");
}

TEST(ChartAxis, OneValueHasRoomAroundIt) {
  EXPECT_EQ(Linear(0, 0), "0 0.2 0.4 0.6 0.8 1");
  EXPECT_EQ(Linear(0.01, 0.01), "0.004 0.006 0.008 0.01 0.012 0.014 0.016");
  EXPECT_EQ(Log(0.01, 0.01), "0.01 0.02 0.05 0.1");
}

TEST(ChartAxis, LogTicksAreDecades) {
  EXPECT_EQ(Log(1e-7, 10), "1e-07 1e-06 1e-05 0.0001 0.001 0.01 0.1 1 10");
  EXPECT_EQ(Log(2e-7, 3, AxisEnds::kData), "1e-06 1e-05 0.0001 0.001 0.01 0.1 1");
  EXPECT_EQ(Log(0.001, 0.1), "0.001 0.002 0.005 0.01 0.02 0.05 0.1");
  EXPECT_EQ(Log(0.001, 0.1F), "0.001 0.002 0.005 0.01 0.02 0.05 0.1");
  EXPECT_EQ(Log(1e-30, 1), "1e-30 1e-26 1e-22 1e-18 1e-14 1e-10 1e-06 0.01");
}

TEST(ChartAxis, PlacesRunFromZeroToOne) {
  for (const AxisScale scale : {AxisScale::kLinear, AxisScale::kLog}) {
    const ChartAxis axis = MakeAxis(scale, 1, 1000, AxisEnds::kData, 7);
    EXPECT_LT(axis.low, 1);
    EXPECT_GT(axis.high, 1000);
    EXPECT_DOUBLE_EQ(axis.Place(axis.low), 0);
    EXPECT_DOUBLE_EQ(axis.Place(axis.high), 1);
    for (size_t i = 1; i < axis.ticks.size(); ++i) {
      EXPECT_LT(axis.ticks[i - 1].value, axis.ticks[i].value);
    }
  }
  const ChartAxis log = MakeAxis(AxisScale::kLog, 1, 100, AxisEnds::kTicks, 7);
  EXPECT_DOUBLE_EQ(log.Place(10), 0.5);
  EXPECT_TRUE(std::isnan(log.Place(0)));
  EXPECT_TRUE(std::isnan(log.Place(-1)));
}

}  // namespace
}  // namespace crema::tools
