#include <algorithm>
#include <cfloat>

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
template <bool kWithIndex, typename T, typename Index>
[[gnu::always_inline]] inline void TakeLarger(const T* x, int64_t stride, Columns columns,
                                              Index cell, T* best, Index* index) {
  for (int64_t o = columns.begin; o < columns.end; ++o) {
    const T value = x[o * stride];
    const bool larger = value > best[o];
    best[o] = larger ? value : best[o];
    if constexpr (kWithIndex) index[o] = larger ? cell : index[o];
  }
}

template <bool kWithIndex, typename T, typename Index>
[[gnu::always_inline]] inline void MaxPlane(const PoolWindow& w, const T* x, T* y, Index* index) {
  for (int64_t oh = 0; oh < w.h.out; ++oh) {
    T* best = y + oh * w.w.out;
    Index* place = kWithIndex ? index + oh * w.w.out : nullptr;
    std::fill(best, best + w.w.out, static_cast<T>(-FLT_MAX));
    if constexpr (kWithIndex) std::fill(place, place + w.w.out, kNoIndex<Index>);
    for (int64_t ih = w.h.Begin(oh); ih < w.h.End(oh); ++ih) {
      const int64_t row = (ih - w.h.Start(oh)) * w.w.kernel;
      for (int64_t k = 0; k < w.w.kernel; ++k) {
        const T* cell = x + ih * w.w.in + k - w.w.pad;
        const auto number = static_cast<Index>(row + k);
        // Steps of 1 and 2, the usual ones, are worth vector code of their own.
        if (w.w.stride == 1) {
          TakeLarger<kWithIndex>(cell, 1, Inside(w.w, k), number, best, place);
        } else if (w.w.stride == 2) {
          TakeLarger<kWithIndex>(cell, 2, Inside(w.w, k), number, best, place);
        } else {
          TakeLarger<kWithIndex>(cell, w.w.stride, Inside(w.w, k), number, best, place);
        }
      }
    }
  }
}

// Windows of 2x2 without overlap or padding: each cell is read once, all four at a time.
template <bool kWithIndex, typename T, typename Index>
[[gnu::always_inline]] inline void MaxPlane2x2(const PoolWindow& w, const T* x, T* y,
                                               Index* index) {
  for (int64_t oh = 0; oh < w.h.out; ++oh) {
    const T* top = x + 2 * oh * w.w.in;
    const T* low = top + w.w.in;
    for (int64_t o = 0; o < w.w.out; ++o) {
      T best = static_cast<T>(-FLT_MAX);
      int place = -1;
      const T cells[4] = {top[2 * o], top[2 * o + 1], low[2 * o], low[2 * o + 1]};
      for (int k = 0; k < 4; ++k) {
        const bool larger = cells[k] > best;
        best = larger ? cells[k] : best;
        if constexpr (kWithIndex) place = larger ? k : place;
      }
      y[oh * w.w.out + o] = best;
      if constexpr (kWithIndex) index[oh * w.w.out + o] = static_cast<Index>(place);
    }
  }
}

template <bool kWithIndex, typename T, typename Index>
[[gnu::always_inline]] inline void MaxPlanes(const PoolWindow& w, bool is_2x2, int64_t planes,
                                             const T* x, T* y, Index* index) {
  for (int64_t p = 0; p < planes; ++p) {
    Index* place = kWithIndex ? index + p * w.OutSize() : nullptr;
    if (is_2x2) {
      MaxPlane2x2<kWithIndex>(w, x + p * w.InSize(), y + p * w.OutSize(), place);
    } else {
      MaxPlane<kWithIndex>(w, x + p * w.InSize(), y + p * w.OutSize(), place);
    }
  }
}

CREMA_MULTIVERSION void Max(const PoolWindow& w, bool is_2x2, int64_t planes, const float* x,
                            float* y, uint8_t* index) {
  MaxPlanes<true>(w, is_2x2, planes, x, y, index);
}
CREMA_MULTIVERSION void Max(const PoolWindow& w, bool is_2x2, int64_t planes, const float* x,
                            float* y, int32_t* index) {
  MaxPlanes<true>(w, is_2x2, planes, x, y, index);
}
CREMA_MULTIVERSION void MaxValues(const PoolWindow& w, bool is_2x2, int64_t planes, const float* x,
                                  float* y) {
  MaxPlanes<false, float, uint8_t>(w, is_2x2, planes, x, y, nullptr);
}
template <typename Index>
void Max(const PoolWindow& w, bool is_2x2, int64_t planes, const double* x, double* y,
         Index* index) {
  MaxPlanes<true>(w, is_2x2, planes, x, y, index);
}
void MaxValues(const PoolWindow& w, bool is_2x2, int64_t planes, const double* x, double* y) {
  MaxPlanes<false, double, uint8_t>(w, is_2x2, planes, x, y, nullptr);
}

bool Is2x2(const PoolAxis& axis) {
  return axis.kernel == 2 && axis.stride == 2 && axis.pad == 0 && 2 * axis.out <= axis.in;
}
bool Is2x2(const PoolWindow& w) { return Is2x2(w.h) && Is2x2(w.w); }

// Every cell of dx belongs to one window at most, so each is written once.
template <typename T, typename Index>
[[gnu::always_inline]] inline void MaxBackwardPlane2x2(const PoolWindow& w, const Index* index,
                                                       const T* dy, T* dx) {
  for (int64_t oh = 0; oh < w.h.out; ++oh) {
    T* top = dx + 2 * oh * w.w.in;
    T* low = top + w.w.in;
    for (int64_t o = 0; o < w.w.out; ++o) {
      const int place = index[oh * w.w.out + o];
      const T g = dy[oh * w.w.out + o];
      top[2 * o] = place == 0 ? g : T(0);
      top[2 * o + 1] = place == 1 ? g : T(0);
      low[2 * o] = place == 2 ? g : T(0);
      low[2 * o + 1] = place == 3 ? g : T(0);
    }
    std::fill(top + 2 * w.w.out, top + w.w.in, T(0));
    std::fill(low + 2 * w.w.out, low + w.w.in, T(0));
  }
  std::fill(dx + 2 * w.h.out * w.w.in, dx + w.InSize(), T(0));
}

CREMA_MULTIVERSION void MaxBackward2x2(const PoolWindow& w, int64_t planes, const uint8_t* index,
                                       const float* dy, float* dx) {
  for (int64_t p = 0; p < planes; ++p) {
    MaxBackwardPlane2x2(w, index + p * w.OutSize(), dy + p * w.OutSize(), dx + p * w.InSize());
  }
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
  if (index == nullptr) {
    MaxValues(w, Is2x2(w), planes, x, y);
  } else {
    Max(w, Is2x2(w), planes, x, y, index);
  }
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
    if (Is2x2(w)) return MaxBackward2x2(w, planes, index, dy, dx);
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
