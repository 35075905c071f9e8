// Row indices as inputs of layers, and copying the rows that they select.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/tensor.h"
#include "graph/layer.h"

namespace crema {

// Throws kDataLoss, naming the value, its position and the range, unless every element of bottom
// `bottom` is a whole number in [0, limit). `what` names the counted entries: "rows of the weight".
// `indices` is f32 or f64.
void CheckIndices(const Layer& layer, const ConstTensorView& indices, int bottom, int64_t limit,
                  std::string_view what);

// A tensor viewed as (outer, rows, inner), and the number of checked row indices, `picked`.
struct GatherSize {
  int64_t outer = 1;
  int64_t rows = 1;
  int64_t picked = 0;
  int64_t inner = 1;
};

// y[o, k, :] = x[o, indices[k], :]. T is float or double.
template <typename T>
void GatherRows(int threads, const GatherSize& sizes, const T* indices, const T* x, T* y);

// dx[o, indices[k], :] += dy[o, k, :], in the order of k for any number of threads.
template <typename T>
void ScatterAddRows(int threads, const GatherSize& sizes, const T* indices, const T* dy, T* dx);

}  // namespace crema
