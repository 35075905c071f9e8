// How large the numbers of a blob are, over many passes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace crema {

// Magnitudes in bins of one width over [0, limit). The limit doubles, and bins are joined in pairs,
// when a larger one comes, so that one pass over the data is enough. Thread safety: one thread.
class ValueHistogram {
 public:
  static constexpr int kBins = 2048;

  // Numbers that are not finite are only counted.
  void Add(std::span<const float> values);

  int64_t count() const { return count_; }            // of finite ones
  int64_t not_finite() const { return not_finite_; }  // NaN and infinities
  float lowest() const { return lowest_; }
  float highest() const { return highest_; }
  float LargestMagnitude() const;
  double BinWidth() const { return limit_ / kBins; }
  std::span<const int64_t> bins() const { return bins_; }

 private:
  void GrowTo(double magnitude);

  std::vector<int64_t> bins_ = std::vector<int64_t>(kBins);
  double limit_ = 0;  // 0: nothing but zeros was seen
  int64_t count_ = 0;
  int64_t not_finite_ = 0;
  float lowest_ = 0;
  float highest_ = 0;
};

}  // namespace crema
