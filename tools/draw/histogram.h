// The distribution of the values of a parameter.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace crema::tools {

struct Histogram {
  double low = 0;  // of the finite values
  double high = 0;
  double mean = 0;
  double deviation = 0;
  int64_t zeros = 0;
  int64_t not_finite = 0;
  std::vector<int64_t> counts;  // in buckets of equal width from low to high
};

Histogram HistogramOf(std::span<const float> values);

std::string ToJson(const Histogram& histogram);

}  // namespace crema::tools
