// Histogram of a blob's magnitudes over many passes, and the range that bytes cover by it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace crema {

// Counts magnitudes in bins of equal width over [0, limit). A larger value doubles the limit and
// joins bins in pairs, so that one pass over the data suffices. Thread safety: one thread.
class ValueHistogram {
 public:
  static constexpr int kBins = 2048;

  // Only counts non-finite values.
  void Add(std::span<const float> values);

  int64_t count() const { return count_; }            // finite values
  int64_t not_finite() const { return not_finite_; }  // NaN and infinities
  float lowest() const { return lowest_; }
  float highest() const { return highest_; }
  float LargestMagnitude() const;
  double BinWidth() const { return limit_ / kBins; }
  std::span<const int64_t> bins() const { return bins_; }

 private:
  void GrowTo(double magnitude);

  std::vector<int64_t> bins_ = std::vector<int64_t>(kBins);
  double limit_ = 0;  // 0: only zeros so far
  int64_t count_ = 0;
  int64_t not_finite_ = 0;
  float lowest_ = 0;
  float highest_ = 0;
};

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
