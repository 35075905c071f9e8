#include "draw/histogram.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/json.h"
#include "core/strings.h"

namespace crema::tools {

Histogram HistogramOf(std::span<const float> values) {
  constexpr size_t kBuckets = 48;
  Histogram histogram;
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  double sum = 0;
  double squares = 0;
  int64_t count = 0;
  for (const float value : values) {
    if (!std::isfinite(value)) {
      ++histogram.not_finite;
      continue;
    }
    const double v = value;
    low = std::min(low, v);
    high = std::max(high, v);
    sum += v;
    squares += v * v;
    histogram.zeros += value == 0 ? 1 : 0;
    ++count;
  }
  if (count == 0) return histogram;
  const auto n = static_cast<double>(count);
  histogram.low = low;
  histogram.high = high;
  histogram.mean = sum / n;
  histogram.deviation = std::sqrt(std::max(0.0, squares / n - histogram.mean * histogram.mean));
  histogram.counts.assign(kBuckets, 0);
  const double scale = high > low ? kBuckets / (high - low) : 0;
  for (const float value : values) {
    if (!std::isfinite(value)) continue;
    const auto bucket = static_cast<size_t>((value - low) * scale);
    ++histogram.counts[std::min(bucket, kBuckets - 1)];
  }
  return histogram;
}

std::string ToJson(const Histogram& histogram) {
  std::string counts;
  for (const int64_t count : histogram.counts) {
    counts += (counts.empty() ? "" : ",") + std::to_string(count);
  }
  return StrCat("{\"low\":", JsonNumber(histogram.low), ",\"high\":", JsonNumber(histogram.high),
                ",\"mean\":", JsonNumber(histogram.mean),
                ",\"deviation\":", JsonNumber(histogram.deviation), ",\"zeros\":", histogram.zeros,
                ",\"not_finite\":", histogram.not_finite, ",\"counts\":[", counts, "]}");
}

}  // namespace crema::tools
