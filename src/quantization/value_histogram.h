// Histogram of the magnitudes of a blob over many passes.
#pragma once

#include <cstdint>
#include <span>
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

}  // namespace crema
