#include <algorithm>
#include <cfloat>

#include "math/cpu/max_pool_2x2.h"
#include "math/pool.h"
#include "math/vectorize.h"

namespace crema {
namespace {

// The outputs whose kernel column k lies inside the image.
struct Columns {
  int64_t begin;
  int64_t end;
};
Columns Inside(const PoolAxis& axis, int64_t k) {
  const int64_t offset = k - axis.pad;
  const int64_t begin = offset >= 0 ? 0 : (-offset + axis.stride - 1) / axis.stride;
  const int64_t end = axis.in <= offset ? 0 : (axis.in - 1 - offset) / axis.stride + 1;
  return {std::min(begin, axis.out), std::min(end, axis.out)};
}

// One kernel cell against the best so far of a row of outputs. `x` is that cell for output 0.
template <typename T>
[[gnu::always_inline]] inline void TakeLarger(const T* x, int64_t stride, Columns columns,
                                              int32_t cell, T* best, int32_t* place) {
  for (int64_t o = columns.begin; o < columns.end; ++o) {
    const T value = x[o * stride];
    const bool larger = value > best[o];
    best[o] = larger ? value : best[o];
    place[o] = larger ? cell : place[o];
  }
}

constexpr int64_t kPiece = 256;  // outputs of a row that are worked on at a time

// Outputs [first, last) of row `oh`. Places are kept as wide as values until the end, because mixed
// widths make poor vector code.
template <typename T, typename Index>
[[gnu::always_inline]] inline void MaxPiece(const PoolWindow& w, int64_t oh, int64_t first,
                                            int64_t last, const T* x, T* y, Index* index) {
  T best[kPiece];
  int32_t place[kPiece];
  const int64_t count = last - first;
  std::fill(best, best + count, static_cast<T>(-FLT_MAX));
  std::fill(place, place + count, -1);
  for (int64_t ih = w.h.Begin(oh); ih < w.h.End(oh); ++ih) {
    const int64_t row = (ih - w.h.Start(oh)) * w.w.kernel;
    for (int64_t k = 0; k < w.w.kernel; ++k) {
      const Columns inside = Inside(w.w, k);
      const Columns columns = {std::max<int64_t>(0, inside.begin - first),
                               std::min(inside.end, last) - first};
      const T* cell = x + ih * w.w.in + k + w.w.Start(first);
      const auto number = static_cast<int32_t>(row + k);
      // Steps of 1 and 2, the usual ones, are worth vector code of their own.
      if (w.w.stride == 1) {
        TakeLarger(cell, 1, columns, number, best, place);
      } else if (w.w.stride == 2) {
        TakeLarger(cell, 2, columns, number, best, place);
      } else {
        TakeLarger(cell, w.w.stride, columns, number, best, place);
      }
    }
  }
  std::copy(best, best + count, y + first);
  if (index == nullptr) return;
  for (int64_t o = 0; o < count; ++o) index[first + o] = static_cast<Index>(place[o]);
}

template <typename T, typename Index>
[[gnu::always_inline]] inline void MaxPlanes(const PoolWindow& w, int64_t planes, const T* x, T* y,
                                             Index* index) {
  for (int64_t p = 0; p < planes; ++p, x += w.InSize()) {
    for (int64_t oh = 0; oh < w.h.out; ++oh, y += w.w.out) {
      for (int64_t first = 0; first < w.w.out; first += kPiece) {
        MaxPiece(w, oh, first, std::min(w.w.out, first + kPiece), x, y, index);
      }
      if (index != nullptr) index += w.w.out;
    }
  }
}

CREMA_MULTIVERSION void Max(const PoolWindow& w, int64_t planes, const float* x, float* y,
                            uint8_t* index) {
  MaxPlanes(w, planes, x, y, index);
}
CREMA_MULTIVERSION void Max(const PoolWindow& w, int64_t planes, const float* x, float* y,
                            int32_t* index) {
  MaxPlanes(w, planes, x, y, index);
}
template <typename Index>
void Max(const PoolWindow& w, int64_t planes, const double* x, double* y, Index* index) {
  MaxPlanes(w, planes, x, y, index);
}

template <typename T, typename Index>
void MaxBackwardPlane(const PoolWindow& w, const Index* index, const T* dy, T* dx) {
  std::fill(dx, dx + w.InSize(), T(0));
  for (int64_t oh = 0; oh < w.h.out; ++oh) {
    for (int64_t ow = 0; ow < w.w.out; ++ow) {
      const int64_t o = oh * w.w.out + ow;
      if (index[o] == kNoIndex<Index>) continue;
      const int64_t ih = w.h.Start(oh) + index[o] / w.w.kernel;
      const int64_t iw = w.w.Start(ow) + index[o] % w.w.kernel;
      dx[ih * w.w.in + iw] += dy[o];
    }
  }
}

}  // namespace

template <typename T, typename Index>
void MaxPool(const PoolWindow& w, int64_t planes, const T* x, T* y, Index* index) {
  if constexpr (sizeof(T) == sizeof(float) && sizeof(Index) == 1) {
    if (IsMaxPool2x2(w)) return MaxPool2x2(w, planes, x, y, index);
  }
  Max(w, planes, x, y, index);
}

template <typename T, typename Index>
void MaxPoolPositions(const PoolWindow& w, int64_t planes, const Index* index, T* position) {
  for (int64_t p = 0; p < planes; ++p) {
    for (int64_t oh = 0; oh < w.h.out; ++oh) {
      for (int64_t ow = 0; ow < w.w.out; ++ow, ++index, ++position) {
        const int64_t ih = w.h.Start(oh) + *index / w.w.kernel;
        const int64_t iw = w.w.Start(ow) + *index % w.w.kernel;
        *position = *index == kNoIndex<Index> ? T(-1) : static_cast<T>(ih * w.w.in + iw);
      }
    }
  }
}

template <typename T, typename Index>
void MaxPoolBackward(const PoolWindow& w, int64_t planes, const Index* index, const T* dy, T* dx) {
  if constexpr (sizeof(T) == sizeof(float) && sizeof(Index) == 1) {
    if (IsMaxPool2x2(w)) return MaxPool2x2Backward(w, planes, index, dy, dx);
  }
  for (int64_t p = 0; p < planes; ++p) {
    MaxBackwardPlane(w, index + p * w.OutSize(), dy + p * w.OutSize(), dx + p * w.InSize());
  }
}

template void MaxPool(const PoolWindow&, int64_t, const float*, float*, uint8_t*);
template void MaxPool(const PoolWindow&, int64_t, const float*, float*, int32_t*);
template void MaxPool(const PoolWindow&, int64_t, const double*, double*, uint8_t*);
template void MaxPool(const PoolWindow&, int64_t, const double*, double*, int32_t*);
template void MaxPoolPositions(const PoolWindow&, int64_t, const uint8_t*, float*);
template void MaxPoolPositions(const PoolWindow&, int64_t, const int32_t*, float*);
template void MaxPoolPositions(const PoolWindow&, int64_t, const uint8_t*, double*);
template void MaxPoolPositions(const PoolWindow&, int64_t, const int32_t*, double*);
template void MaxPoolBackward(const PoolWindow&, int64_t, const uint8_t*, const float*, float*);
template void MaxPoolBackward(const PoolWindow&, int64_t, const int32_t*, const float*, float*);
template void MaxPoolBackward(const PoolWindow&, int64_t, const uint8_t*, const double*, double*);
template void MaxPoolBackward(const PoolWindow&, int64_t, const int32_t*, const double*, double*);

}  // namespace crema
