// Histogram of a blob's values.
#pragma once

#include <span>
#include <vector>

namespace crema {

struct Histogram {
  double min = 0;
  double max = 0;
  double count = 0;  // number of finite values; others are ignored
  double sum = 0;
  double sum_squares = 0;
  std::vector<double> limits;  // upper limits, ascending
  std::vector<double> counts;  // by limit
};

// Buckets of equal width from the smallest to the largest value; a single one if all are equal or
// there are none.
Histogram HistogramOf(std::span<const float> values, int buckets = 64);

}  // namespace crema
