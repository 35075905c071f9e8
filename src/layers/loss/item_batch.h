// Batches whose items are on axis 0 and are compared elementwise.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "graph/layer.h"

namespace crema {

// Returns N, or 1 for an empty batch, whose loss is 0.
inline double BatchSize(const Shape& shape) {
  return static_cast<double>(std::max<int64_t>(1, shape[0]));
}

// Returns the least number of items of `values` values each that is worth a thread.
inline int64_t ItemGrain(int64_t values) {
  constexpr int64_t kGrain = 1 << 13;  // values
  return std::max<int64_t>(1, kGrain / std::max<int64_t>(1, values));
}

template <typename T>
double SquaredDistance(const T* a, const T* b, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double difference = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    sum += difference * difference;
  }
  return sum;
}

// Throws like FailInputs unless all inputs have the same axis 0 and the same number of values per
// item.
void CheckEqualItems(const Layer& layer, std::span<const BlobSpec> inputs);

}  // namespace crema
