// From what was seen of a blob to the range that bytes cover.
#pragma once

#include <string>

#include "quantization/value_histogram.h"

namespace crema {

enum class RangeRule {
  kEntropy,     // the range that loses the least information
  kPercentile,  // all but the few largest magnitudes
  kLargest,     // all that was seen
};

// "entropy", "percentile" or "max". Throws kInvalidArgument.
RangeRule ParseRangeRule(const std::string& name);

// The largest magnitude of a range: of the ranges that end at a bin, the one whose numbers, in as
// many steps as a byte has, have the distribution nearest to that of all numbers by the divergence
// of Kullback and Leibler (S. Migacz: 8-bit Inference with TensorRT, GTC 2017). The first bin is
// not counted: zeros are exact in any range, and behind a ReLU they are most of the numbers.
// 0 where all numbers are 0. `steps`: magnitudes that bytes tell apart, 128 (signed) or 256.
float EntropyRange(const ValueHistogram& histogram, int steps);

// That `percent` of all numbers do not exceed; at most the largest that was seen. Requires
// 0 < percent <= 100.
float PercentileRange(const ValueHistogram& histogram, double percent);

// 10 log10 of signal / noise where those numbers become `steps` magnitudes over [0, max], `max`
// above 0. Infinite where nothing is lost, and where all numbers are 0.
double RoundingSnrDb(const ValueHistogram& histogram, double max, int steps);

}  // namespace crema
