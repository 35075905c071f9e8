// Row indices as inputs of layers, and copying the rows that they select.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/host_device.h"
#include "core/tensor.h"
#include "graph/layer.h"

namespace crema {

// Range of indices. `from_end`: -limit..-1 count from the end.
struct IndexRange {
  int64_t limit = 0;
  bool from_end = false;
};

// Throws kDataLoss, naming the value, its position and the range, unless every element of bottom
// `bottom` is a whole number in its range: that of element i is ranges[i % ranges.size()]. `what`
// names the counted entries: "rows of the weight". `indices` is f32 or f64.
void CheckIndices(const Layer& layer, const ConstTensorView& indices, int bottom,
                  std::span<const IndexRange> ranges, std::string_view what);
// The same with the range [0, limit) for all.
void CheckIndices(const Layer& layer, const ConstTensorView& indices, int bottom, int64_t limit,
                  std::string_view what);

// Returns the entry of an index in 0..rows-1; -1 if the index is not a whole number in the range.
CREMA_HOST_DEVICE inline int64_t RowOfIndex(double index, int64_t rows, bool from_end = false) {
  if (from_end && index < 0) index += static_cast<double>(rows);
  if (!(index >= 0 && index < static_cast<double>(rows))) return -1;
  const auto row = static_cast<int64_t>(index);
  return static_cast<double>(row) == index ? row : -1;
}

// A tensor viewed as (outer, rows, inner), and the number of checked row indices, `picked`.
struct GatherSize {
  int64_t outer = 1;
  int64_t rows = 1;
  int64_t picked = 0;
  int64_t inner = 1;
  bool from_end = false;  // negative indices count from the end
};

// y[o, k, :] = x[o, indices[k], :]. T is float or double.
template <typename T>
void GatherRows(int threads, const GatherSize& sizes, const T* indices, const T* x, T* y);

// dx[o, indices[k], :] += dy[o, k, :], in the order of k for any number of threads.
template <typename T>
void ScatterAddRows(int threads, const GatherSize& sizes, const T* indices, const T* dy, T* dx);

}  // namespace crema
