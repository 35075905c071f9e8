#include "report/histogram.h"

#include <algorithm>
#include <cmath>

namespace crema {

Histogram HistogramOf(std::span<const float> values, int buckets) {
  Histogram h;
  for (const double x : values) {
    if (!std::isfinite(x)) continue;
    h.min = h.count == 0 ? x : std::min(h.min, x);
    h.max = h.count == 0 ? x : std::max(h.max, x);
    h.count += 1;
    h.sum += x;
    h.sum_squares += x * x;
  }
  const double width = (h.max - h.min) / buckets;
  if (!(width > 0)) {
    h.limits = {h.max};
    h.counts = {h.count};
    return h;
  }
  for (int i = 1; i < buckets; ++i) h.limits.push_back(h.min + i * width);
  h.limits.push_back(h.max);
  h.counts.assign(static_cast<size_t>(buckets), 0);
  for (const double x : values) {
    if (!std::isfinite(x)) continue;
    const int i = std::clamp(static_cast<int>((x - h.min) / width), 0, buckets - 1);
    h.counts[static_cast<size_t>(i)] += 1;
  }
  return h;
}

}  // namespace crema
