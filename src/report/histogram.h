// How the values of a blob are spread.
#pragma once

#include <span>
#include <vector>

namespace crema {

struct Histogram {
  double min = 0;
  double max = 0;
  double count = 0;  // of finite values; others are left out
  double sum = 0;
  double sum_squares = 0;
  std::vector<double> limits;  // upper, ascending
  std::vector<double> counts;  // by limit
};

// Buckets of equal width from the smallest value to the largest; one where all are the same, or
// where there is none.
Histogram HistogramOf(std::span<const float> values, int buckets = 64);

}  // namespace crema
