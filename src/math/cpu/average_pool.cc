#include <algorithm>

#include "math/pool.h"
#include "math/vectorize.h"

namespace crema {
namespace {

template <typename T>
[[gnu::always_inline]] inline T Divisor(const PoolWindow& w, bool exclude_pad, int64_t oh,
                                        int64_t ow) {
  const int64_t cells = exclude_pad ? (w.h.End(oh) - w.h.Begin(oh)) * (w.w.End(ow) - w.w.Begin(ow))
                                    : w.h.Padded(oh) * w.w.Padded(ow);
  return static_cast<T>(cells);
}

template <typename T>
[[gnu::always_inline]] inline T RowSum(const T* x, int64_t count) {
  constexpr int kLanes = 16;
  T lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += x[i + lane];
  }
  T sum = 0;
  for (; i < count; ++i) sum += x[i];
  if (count >= kLanes) {
    for (T lane : lanes) sum += lane;
  }
  return sum;
}

// The cells of a window as separate rows; one row if it spans the whole width.
struct Cells {
  int64_t first;  // in the plane
  int64_t rows;
  int64_t columns;
};
[[gnu::always_inline]] inline Cells WindowCells(const PoolWindow& w, int64_t oh, int64_t ow) {
  const int64_t top = w.h.Begin(oh), left = w.w.Begin(ow);
  const int64_t rows = w.h.End(oh) - top, columns = w.w.End(ow) - left;
  if (columns == w.w.in) return {top * w.w.in, 1, rows * columns};
  return {top * w.w.in + left, rows, columns};
}

template <typename T>
[[gnu::always_inline]] inline void Average(const PoolWindow& w, bool exclude_pad, int64_t planes,
                                           const T* x, T* y) {
  const int64_t width = w.w.in;
  for (int64_t p = 0; p < planes; ++p, x += w.InSize()) {
    for (int64_t oh = 0; oh < w.h.out; ++oh) {
      for (int64_t ow = 0; ow < w.w.out; ++ow) {
        const Cells cells = WindowCells(w, oh, ow);
        T sum = 0;
        for (int64_t r = 0; r < cells.rows; ++r) {
          sum += RowSum(x + cells.first + r * width, cells.columns);
        }
        *y++ = sum / Divisor<T>(w, exclude_pad, oh, ow);
      }
    }
  }
}

template <typename T>
[[gnu::always_inline]] inline void AverageBackward(const PoolWindow& w, bool exclude_pad,
                                                   int64_t planes, const T* dy, T* dx) {
  const int64_t width = w.w.in;
  std::fill(dx, dx + planes * w.InSize(), T(0));
  for (int64_t p = 0; p < planes; ++p, dx += w.InSize()) {
    for (int64_t oh = 0; oh < w.h.out; ++oh) {
      for (int64_t ow = 0; ow < w.w.out; ++ow) {
        const Cells cells = WindowCells(w, oh, ow);
        const T share = *dy++ / Divisor<T>(w, exclude_pad, oh, ow);
        for (int64_t r = 0; r < cells.rows; ++r) {
          T* row = dx + cells.first + r * width;
          for (int64_t i = 0; i < cells.columns; ++i) row[i] += share;
        }
      }
    }
  }
}

CREMA_MULTIVERSION void Forward(const PoolWindow& w, bool exclude_pad, int64_t planes,
                                const float* x, float* y) {
  Average(w, exclude_pad, planes, x, y);
}
void Forward(const PoolWindow& w, bool exclude_pad, int64_t planes, const double* x, double* y) {
  Average(w, exclude_pad, planes, x, y);
}
CREMA_MULTIVERSION void Backward(const PoolWindow& w, bool exclude_pad, int64_t planes,
                                 const float* dy, float* dx) {
  AverageBackward(w, exclude_pad, planes, dy, dx);
}
void Backward(const PoolWindow& w, bool exclude_pad, int64_t planes, const double* dy, double* dx) {
  AverageBackward(w, exclude_pad, planes, dy, dx);
}

}  // namespace

template <typename T>
void AveragePool(const PoolWindow& w, bool exclude_pad, int64_t planes, const T* x, T* y) {
  Forward(w, exclude_pad, planes, x, y);
}

template <typename T>
void AveragePoolBackward(const PoolWindow& w, bool exclude_pad, int64_t planes, const T* dy,
                         T* dx) {
  Backward(w, exclude_pad, planes, dy, dx);
}

template void AveragePool(const PoolWindow&, bool, int64_t, const float*, float*);
template void AveragePool(const PoolWindow&, bool, int64_t, const double*, double*);
template void AveragePoolBackward(const PoolWindow&, bool, int64_t, const float*, float*);
template void AveragePoolBackward(const PoolWindow&, bool, int64_t, const double*, double*);

}  // namespace crema
