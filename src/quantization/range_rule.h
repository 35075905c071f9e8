// Determines the range that bytes cover from a blob's histogram.
#pragma once

#include <string>

#include "quantization/value_histogram.h"

namespace crema {

enum class RangeRule {
  kEntropy,     // the range with the least information loss
  kPercentile,  // drops the few largest magnitudes
  kLargest,     // the largest magnitude
};

// Parses "entropy", "percentile" or "max". Throws kInvalidArgument.
RangeRule ParseRangeRule(const std::string& name);

// Returns the largest magnitude of the range, ending at a bin, whose quantized distribution has the
// least Kullback-Leibler divergence from the original (S. Migacz: 8-bit Inference with TensorRT,
// GTC 2017). Ignores the first bin: zeros are exact in any range, and prevail after a ReLU. Returns
// 0 if all values are 0. `steps`: number of magnitudes of a byte, 128 (signed) or 256.
float EntropyRange(const ValueHistogram& histogram, int steps);

// Returns the magnitude that `percent` of all values do not exceed; at most the largest magnitude.
// Requires: 0 < percent <= 100.
float PercentileRange(const ValueHistogram& histogram, double percent);

// Returns 10 log10 of signal / noise for rounding to `steps` magnitudes over [0, max]. Infinite
// without loss, and if all values are 0. Requires: max > 0.
double RoundingSnrDb(const ValueHistogram& histogram, double max, int steps);

}  // namespace crema
