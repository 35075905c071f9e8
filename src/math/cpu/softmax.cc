#include "math/softmax.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/parallel_for.h"

namespace crema {
namespace {

// Neighbouring positions that are worked on together, so that memory is read in order.
constexpr int64_t kTile = 128;
constexpr int64_t kGrain = 1 << 12;  // elements that pay for a thread

// Calls body(offset, length) for runs of at most kTile positions that lie side by side.
template <typename Body>
void ForEachTile(int threads, const SoftmaxExtent& extent, Body&& body) {
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, extent.classes));
  ParallelFor(threads, extent.outer * extent.inner, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t at = begin; at < end;) {
      const int64_t column = at % extent.inner;
      const int64_t length = std::min({kTile, extent.inner - column, end - at});
      body(at / extent.inner * extent.classes * extent.inner + column, length);
      at += length;
    }
  });
}

template <typename T>
void ForwardTile(const SoftmaxExtent& extent, const T* x, T* y, int64_t length) {
  std::array<T, kTile> top;
  std::array<T, kTile> sum;
  std::fill_n(top.begin(), length, -std::numeric_limits<T>::infinity());
  std::fill_n(sum.begin(), length, T(0));
  for (int64_t c = 0; c < extent.classes; ++c) {
    const T* row = x + c * extent.inner;
    for (int64_t k = 0; k < length; ++k) top[k] = std::max(top[k], row[k]);
  }
  for (int64_t c = 0; c < extent.classes; ++c) {
    const int64_t offset = c * extent.inner;
    for (int64_t k = 0; k < length; ++k) {
      const T power = std::exp(x[offset + k] - top[k]);
      y[offset + k] = power;
      sum[k] += power;
    }
  }
  for (int64_t c = 0; c < extent.classes; ++c) {
    T* row = y + c * extent.inner;
    for (int64_t k = 0; k < length; ++k) row[k] /= sum[k];
  }
}

template <typename T>
void BackwardTile(const SoftmaxExtent& extent, const T* y, const T* dy, T* dx, int64_t length) {
  std::array<T, kTile> dot;
  std::fill_n(dot.begin(), length, T(0));
  for (int64_t c = 0; c < extent.classes; ++c) {
    const int64_t offset = c * extent.inner;
    for (int64_t k = 0; k < length; ++k) dot[k] += y[offset + k] * dy[offset + k];
  }
  for (int64_t c = 0; c < extent.classes; ++c) {
    const int64_t offset = c * extent.inner;
    for (int64_t k = 0; k < length; ++k) {
      dx[offset + k] = y[offset + k] * (dy[offset + k] - dot[k]);
    }
  }
}

}  // namespace

template <typename T>
void SoftmaxForward(int threads, const SoftmaxExtent& extent, const T* x, T* y) {
  ForEachTile(threads, extent, [&](int64_t offset, int64_t length) {
    ForwardTile(extent, x + offset, y + offset, length);
  });
}

template <typename T>
void SoftmaxBackward(int threads, const SoftmaxExtent& extent, const T* y, const T* dy, T* dx) {
  ForEachTile(threads, extent, [&](int64_t offset, int64_t length) {
    BackwardTile(extent, y + offset, dy + offset, dx + offset, length);
  });
}

template void SoftmaxForward(int, const SoftmaxExtent&, const float*, float*);
template void SoftmaxForward(int, const SoftmaxExtent&, const double*, double*);
template void SoftmaxBackward(int, const SoftmaxExtent&, const float*, const float*, float*);
template void SoftmaxBackward(int, const SoftmaxExtent&, const double*, const double*, double*);

}  // namespace crema
