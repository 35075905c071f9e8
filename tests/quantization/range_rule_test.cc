#include "quantization/range_rule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/error.h"
#include "core/rng.h"

namespace crema {
namespace {

std::vector<float> Gaussian(int count, float deviation, uint64_t seed = 1) {
  const RandomStream random(seed, 1);
  std::vector<float> values;
  for (int i = 0; i < count; ++i) {
    values.push_back(static_cast<float>(random.Gaussian(static_cast<uint64_t>(i))) * deviation);
  }
  return values;
}

TEST(ValueHistogram, GrowsWithoutLosingNumbers) {
  ValueHistogram grown, whole;
  std::vector<float> all;
  for (const float scale : {0.001F, 1.0F, 0.1F, 300.0F}) {
    const std::vector<float> part = Gaussian(1000, scale);
    grown.Add(part);
    all.insert(all.end(), part.begin(), part.end());
  }
  whole.Add(all);
  EXPECT_EQ(grown.count(), 4000);
  EXPECT_EQ(grown.lowest(), whole.lowest());
  EXPECT_EQ(grown.highest(), whole.highest());
  int64_t sum = 0;
  for (const int64_t n : grown.bins()) sum += n;
  EXPECT_EQ(sum, 4000);
  // Independent of the bin limits, half of the numbers are below the same magnitude, within one
  // bin.
  EXPECT_NEAR(PercentileRange(grown, 90), PercentileRange(whole, 90),
              grown.BinWidth() + whole.BinWidth());
}

TEST(ValueHistogram, CountsWhatIsNotFinite) {
  ValueHistogram histogram;
  histogram.Add(std::vector<float>{1, std::numeric_limits<float>::quiet_NaN(), -2,
                                   std::numeric_limits<float>::infinity()});
  EXPECT_EQ(histogram.not_finite(), 2);
  EXPECT_EQ(histogram.count(), 2);
  EXPECT_EQ(histogram.LargestMagnitude(), 2);
}

TEST(ValueHistogram, OfZerosHasNoRange) {
  ValueHistogram histogram;
  histogram.Add(std::vector<float>(100));
  EXPECT_EQ(histogram.count(), 100);
  EXPECT_EQ(histogram.LargestMagnitude(), 0);
  EXPECT_EQ(EntropyRange(histogram, 128), 0);
  EXPECT_EQ(PercentileRange(histogram, 99), 0);
  // Larger numbers added later enlarge the range.
  histogram.Add(std::vector<float>{4});
  EXPECT_EQ(histogram.bins()[0], 100);
  EXPECT_EQ(PercentileRange(histogram, 100), 4);
}

TEST(RangeRule, EntropyKeepsAnEvenDistributionWhole) {
  ValueHistogram histogram;
  std::vector<float> values;
  for (int i = 0; i < 100000; ++i) values.push_back(static_cast<float>(i) / 100000);
  histogram.Add(values);
  EXPECT_GT(EntropyRange(histogram, 256), 0.97F);
}

TEST(RangeRule, EntropyCutsOffASingleLargeNumber) {
  ValueHistogram histogram;
  std::vector<float> values = Gaussian(100000, 1);
  values.push_back(100);
  histogram.Add(values);
  const float range = EntropyRange(histogram, 128);
  EXPECT_GT(range, 3);
  EXPECT_LT(range, 12);
}

TEST(RangeRule, PercentileLeavesOutThatShare) {
  ValueHistogram histogram;
  std::vector<float> values;
  for (int i = 1; i <= 10000; ++i)
    values.push_back(i % 2 == 0 ? -0.01F * float(i) : 0.01F * float(i));
  histogram.Add(values);
  EXPECT_NEAR(PercentileRange(histogram, 90), 90, 2 * histogram.BinWidth());
  EXPECT_EQ(PercentileRange(histogram, 100), 100);
}

TEST(RangeRule, HasNames) {
  EXPECT_EQ(ParseRangeRule("entropy"), RangeRule::kEntropy);
  EXPECT_EQ(ParseRangeRule("percentile"), RangeRule::kPercentile);
  EXPECT_EQ(ParseRangeRule("max"), RangeRule::kLargest);
  EXPECT_THROW(ParseRangeRule("mean"), Error);
}

}  // namespace
}  // namespace crema
