#include "math/bias_activation.h"

#include "core/bfloat16.h"
#include "math/relu_rule.h"
#include "math/vectorize.h"

namespace crema {
namespace {

template <typename T>
inline void RowLoop(int64_t columns, T bias, FusedRelu relu, T* y) {
  const T slope = static_cast<T>(relu.slope);
  if (relu.on) {
    for (int64_t c = 0; c < columns; ++c) {
      T v = y[c] + bias;
      ApplyRelu(slope, &v);
      y[c] = v;
    }
  } else if (bias != 0) {
    for (int64_t c = 0; c < columns; ++c) y[c] += bias;
  }
}
CREMA_MULTIVERSION void Row(int64_t columns, float bias, FusedRelu relu, float* y) {
  RowLoop(columns, bias, relu, y);
}
void Row(int64_t columns, double bias, FusedRelu relu, double* y) {
  RowLoop(columns, bias, relu, y);
}

template <typename T>
inline void ColumnLoop(int64_t columns, const T* bias, FusedRelu relu, T* y) {
  const T slope = static_cast<T>(relu.slope);
  if (relu.on) {
    for (int64_t c = 0; c < columns; ++c) {
      T v = y[c] + bias[c];
      ApplyRelu(slope, &v);
      y[c] = v;
    }
  } else {
    for (int64_t c = 0; c < columns; ++c) y[c] += bias[c];
  }
}
CREMA_MULTIVERSION void Column(int64_t columns, const float* bias, FusedRelu relu, float* y) {
  ColumnLoop(columns, bias, relu, y);
}
void Column(int64_t columns, const double* bias, FusedRelu relu, double* y) {
  ColumnLoop(columns, bias, relu, y);
}

template <typename T>
inline void MaskLoop(int64_t count, Compute<T> slope, const T* y, const T* dy, T* masked) {
  for (int64_t i = 0; i < count; ++i) {
    Compute<T> d{dy[i]};
    MaskByRelu(slope, Compute<T>{y[i]}, &d);
    masked[i] = d;
  }
}
CREMA_MULTIVERSION void Mask(int64_t count, float slope, const float* y, const float* dy,
                             float* masked) {
  MaskLoop(count, slope, y, dy, masked);
}
CREMA_MULTIVERSION void Mask(int64_t count, float slope, const BFloat16* y, const BFloat16* dy,
                             BFloat16* masked) {
  MaskLoop(count, slope, y, dy, masked);
}
void Mask(int64_t count, double slope, const double* y, const double* dy, double* masked) {
  MaskLoop(count, slope, y, dy, masked);
}

// Uses many running sums, so that additions do not wait for each other.
template <typename T>
inline T SumLoop(int64_t count, const T* x) {
  constexpr int kLanes = 64;
  T lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += x[i + lane];
  }
  T sum = 0;
  for (; i < count; ++i) sum += x[i];
  for (T lane : lanes) sum += lane;
  return sum;
}
CREMA_MULTIVERSION float Sum(int64_t count, const float* x) { return SumLoop(count, x); }
double Sum(int64_t count, const double* x) { return SumLoop(count, x); }

template <typename T>
inline void AddLoop(int64_t count, const T* x, T* y) {
  for (int64_t i = 0; i < count; ++i) y[i] += x[i];
}
CREMA_MULTIVERSION void Add(int64_t count, const float* x, float* y) { AddLoop(count, x, y); }
void Add(int64_t count, const double* x, double* y) { AddLoop(count, x, y); }

}  // namespace

template <typename T>
void AddRowBiasRelu(int64_t rows, int64_t columns, const T* bias, FusedRelu relu, T* y) {
  for (int64_t r = 0; r < rows; ++r) {
    Row(columns, bias == nullptr ? T(0) : bias[r], relu, y + r * columns);
  }
}

template <typename T>
void AddColumnBiasRelu(int64_t rows, int64_t columns, const T* bias, FusedRelu relu, T* y) {
  if (bias == nullptr) {
    Row(rows * columns, T(0), relu, y);
    return;
  }
  for (int64_t r = 0; r < rows; ++r) Column(columns, bias, relu, y + r * columns);
}

template <typename T>
void MaskByOutput(int64_t count, float slope, const T* y, const T* dy, T* masked) {
  Mask(count, static_cast<Compute<T>>(slope), y, dy, masked);
}

template <typename T>
void AddRowSums(int64_t rows, int64_t columns, const T* x, T* sums) {
  for (int64_t r = 0; r < rows; ++r) sums[r] += Sum(columns, x + r * columns);
}

template <typename T>
void AddColumnSums(int64_t rows, int64_t columns, const T* x, T* sums) {
  for (int64_t r = 0; r < rows; ++r) Add(columns, x + r * columns, sums);
}

template void AddRowBiasRelu(int64_t, int64_t, const float*, FusedRelu, float*);
template void AddRowBiasRelu(int64_t, int64_t, const double*, FusedRelu, double*);
template void AddColumnBiasRelu(int64_t, int64_t, const float*, FusedRelu, float*);
template void AddColumnBiasRelu(int64_t, int64_t, const double*, FusedRelu, double*);
template void MaskByOutput(int64_t, float, const float*, const float*, float*);
template void MaskByOutput(int64_t, float, const double*, const double*, double*);
template void MaskByOutput(int64_t, float, const BFloat16*, const BFloat16*, BFloat16*);
template void AddRowSums(int64_t, int64_t, const float*, float*);
template void AddRowSums(int64_t, int64_t, const double*, double*);
template void AddColumnSums(int64_t, int64_t, const float*, float*);
template void AddColumnSums(int64_t, int64_t, const double*, double*);

}  // namespace crema
