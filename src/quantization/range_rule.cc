#include "quantization/range_rule.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/error.h"
#include "core/strings.h"

namespace crema {
namespace {

constexpr int kBins = ValueHistogram::kBins;
constexpr int kStride = 8;  // step of the candidate range ends in bins: 0.4 % of all

// Divergence between the first `end` bins and their quantization to `steps` steps. Values beyond
// the end are clipped to the last bin.
double Divergence(std::span<const double> bins, double beyond, size_t end, int steps) {
  double all = beyond;
  for (size_t b = 0; b < end; ++b) all += bins[b];
  if (all == 0) return 0;
  const double inside = all - beyond;
  if (inside == 0) return std::numeric_limits<double>::infinity();
  double divergence = 0;
  for (int s = 0; s < steps; ++s) {
    const size_t from = end * static_cast<size_t>(s) / static_cast<size_t>(steps);
    const size_t to = end * static_cast<size_t>(s + 1) / static_cast<size_t>(steps);
    double sum = 0;
    int filled = 0;
    for (size_t b = from; b < to; ++b) {
      sum += bins[b];
      filled += bins[b] > 0;
    }
    for (size_t b = from; b < to; ++b) {
      double p = bins[b] / all;
      if (b + 1 == end) p += beyond / all;
      if (p == 0) continue;
      // A step distributes its count over its non-empty bins. Clipped values may fall on an empty
      // bin.
      constexpr double kNothing = 1e-9;
      const double q = bins[b] > 0 ? sum / filled / inside : kNothing;
      divergence += p * std::log(p / q);
    }
  }
  return divergence;
}

}  // namespace

RangeRule ParseRangeRule(const std::string& name) {
  if (name == "entropy") return RangeRule::kEntropy;
  if (name == "percentile") return RangeRule::kPercentile;
  if (name == "max") return RangeRule::kLargest;
  Fail(ErrorCode::kInvalidArgument,
       StrCat("there is no rule '", name, "' for ranges; use entropy, percentile or max"));
}

float EntropyRange(const ValueHistogram& histogram, int steps) {
  const float largest = histogram.LargestMagnitude();
  if (largest == 0) return 0;
  std::vector<double> bins(histogram.bins().begin(), histogram.bins().end());
  bins[0] = 0;
  double beyond = 0;
  double least = std::numeric_limits<double>::infinity();
  size_t best = kBins;
  // From the whole range downwards, so that the widest of equal ranges wins.
  for (size_t end = kBins; end >= static_cast<size_t>(steps); end -= kStride) {
    const double divergence = Divergence(bins, beyond, end, steps);
    if (divergence < least) {
      least = divergence;
      best = end;
    }
    for (size_t b = end - kStride; b < end; ++b) beyond += bins[b];
  }
  return std::min(largest, static_cast<float>(static_cast<double>(best) * histogram.BinWidth()));
}

float PercentileRange(const ValueHistogram& histogram, double percent) {
  const float largest = histogram.LargestMagnitude();
  const double wanted = static_cast<double>(histogram.count()) * percent / 100;
  double sum = 0;
  for (size_t b = 0; b < kBins; ++b) {
    sum += static_cast<double>(histogram.bins()[b]);
    if (sum < wanted) continue;
    return std::min(largest, static_cast<float>(static_cast<double>(b + 1) * histogram.BinWidth()));
  }
  return largest;
}

double RoundingSnrDb(const ValueHistogram& histogram, double max, int steps) {
  const double width = histogram.BinWidth(), step = max / steps;
  double signal = 0, noise = 0;
  // Skips the first bin: zeros are exact.
  for (size_t b = 1; b < kBins; ++b) {
    const double v = (static_cast<double>(b) + 0.5) * width;
    const double lost = v - std::min(std::nearbyint(v / step) * step, max);
    // Values of a bin that spans several steps are uniform between two steps.
    const double square = step < width && v < max ? step * step / 12 : lost * lost;
    const auto count = static_cast<double>(histogram.bins()[b]);
    signal += count * v * v;
    noise += count * square;
  }
  if (noise == 0) return std::numeric_limits<double>::infinity();
  return 10 * std::log10(signal / noise);
}

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
