// Adds a bias and applies a leaky ReLU in one pass, and the gradients of both.
#pragma once

#include <cstdint>

namespace crema {

// y = x > 0 ? x : slope * x where `on`; otherwise y = x.
struct FusedRelu {
  bool on = false;
  float slope = 0;
};

// rows x columns, row-major; `bias` may be null. T is float or double. Thread safety: any.
// y[r, c] = relu(y[r, c] + bias[r])
template <typename T>
void AddRowBiasRelu(int64_t rows, int64_t columns, const T* bias, FusedRelu relu, T* y);
// y[r, c] = relu(y[r, c] + bias[c])
template <typename T>
void AddColumnBiasRelu(int64_t rows, int64_t columns, const T* bias, FusedRelu relu, T* y);

// masked = dy where y > 0, slope * dy elsewhere. T may be BFloat16 too.
template <typename T>
void MaskByOutput(int64_t count, float slope, const T* y, const T* dy, T* masked);

// sums[r] += the sum of row r.
template <typename T>
void AddRowSums(int64_t rows, int64_t columns, const T* x, T* sums);
// sums[c] += the sum of column c.
template <typename T>
void AddColumnSums(int64_t rows, int64_t columns, const T* x, T* sums);

}  // namespace crema
