#include "quantization/value_histogram.h"

#include <algorithm>
#include <cmath>

namespace crema {

float ValueHistogram::LargestMagnitude() const {
  return count_ == 0 ? 0.0F : std::max(std::abs(lowest_), std::abs(highest_));
}

void ValueHistogram::GrowTo(double magnitude) {
  if (limit_ == 0) {
    // Earlier zeros are in the first bin, whatever its width.
    limit_ = magnitude * (1 + 1e-6);
    return;
  }
  while (magnitude >= limit_) {
    for (size_t b = 0; b < kBins; ++b) {
      const size_t from = 2 * b;
      bins_[b] = from < kBins ? bins_[from] + bins_[from + 1] : 0;
    }
    limit_ *= 2;
  }
}

void ValueHistogram::Add(std::span<const float> values) {
  float lowest = 0, highest = 0;
  bool first = true;
  for (float v : values) {
    if (!std::isfinite(v)) {
      ++not_finite_;
      continue;
    }
    lowest = first ? v : std::min(lowest, v);
    highest = first ? v : std::max(highest, v);
    first = false;
  }
  if (first) return;
  lowest_ = count_ == 0 ? lowest : std::min(lowest_, lowest);
  highest_ = count_ == 0 ? highest : std::max(highest_, highest);
  const double magnitude = std::max(std::abs(double{lowest}), std::abs(double{highest}));
  if (magnitude > 0) GrowTo(magnitude);
  const double per_bin = limit_ == 0 ? 0 : kBins / limit_;
  for (float v : values) {
    if (!std::isfinite(v)) continue;
    const auto bin = static_cast<int>(std::abs(double{v}) * per_bin);
    ++bins_[static_cast<size_t>(std::min(bin, kBins - 1))];
    ++count_;
  }
}

}  // namespace crema
