#include <algorithm>
#include <array>
#include <cfloat>
#include <cstring>

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
[[gnu::always_inline]] inline Columns ComputeInside(const PoolAxis& axis, int64_t k) {
  const int64_t offset = k - axis.pad;
  const int64_t begin = offset >= 0 ? 0 : (-offset + axis.stride - 1) / axis.stride;
  const int64_t end = axis.in <= offset ? 0 : (axis.in - 1 - offset) / axis.stride + 1;
  return {std::min(begin, axis.out), std::min(end, axis.out)};
}

// Caches the ranges of the first kernel columns: each costs two divisions.
class InsideTable {
 public:
  explicit InsideTable(const PoolAxis& axis) : axis_(axis) {
    for (int64_t k = 0; k < std::min(kKept, axis.kernel); ++k) {
      kept_[static_cast<size_t>(k)] = ComputeInside(axis, k);
    }
  }
  [[gnu::always_inline]] Columns At(int64_t k) const {
    return k < kKept ? kept_[static_cast<size_t>(k)] : ComputeInside(axis_, k);
  }

 private:
  static constexpr int64_t kKept = 16;
  const PoolAxis& axis_;
  std::array<Columns, kKept> kept_;
};

#if defined(__GNUC__) && !defined(__clang__)

// Vector types of the compiler (`using` would drop the attribute): for a plain loop it would emit
// masked stores, which are slow to load again.
constexpr int64_t kLanes = 8;
typedef float Values __attribute__((vector_size(32)));      // NOLINT
typedef int32_t Integers __attribute__((vector_size(32)));  // NOLINT

// Loads kLanes outputs from `o` on. With a stride of 2, it reads one cell more than needed: after
// the last one, or before the first one.
template <int kStride>
[[gnu::always_inline]] inline void TakeLargerBlock(const float* x, int64_t o, bool read_before,
                                                   int32_t cell, float* best, int32_t* place) {
  Values value, old;
  Integers where;
  const float* from = x + o * kStride - (kStride == 2 && read_before ? 1 : 0);
  std::memcpy(&value, from, sizeof(value));
  if constexpr (kStride == 2) {
    Values next;
    std::memcpy(&next, from + kLanes, sizeof(next));
    value = read_before ? __builtin_shuffle(value, next, Integers{1, 3, 5, 7, 9, 11, 13, 15})
                        : __builtin_shuffle(value, next, Integers{0, 2, 4, 6, 8, 10, 12, 14});
  }
  std::memcpy(&old, best + o, sizeof(old));
  std::memcpy(&where, place + o, sizeof(where));
  const Integers larger = value > old;
  old = larger ? value : old;
  where = larger ? Integers{} + cell : where;
  std::memcpy(best + o, &old, sizeof(old));
  std::memcpy(place + o, &where, sizeof(where));
}

// Returns the first unprocessed output. The last block may overlap the previous one: processing a
// cell twice changes nothing.
template <int kStride>
[[gnu::always_inline]] inline int64_t TakeLargerVectors(const float* x, Columns columns,
                                                        int32_t cell, float* best, int32_t* place) {
  if (columns.end - columns.begin <= kLanes) return columns.begin;
  for (int64_t o = columns.begin; o + kLanes < columns.end; o += kLanes) {
    TakeLargerBlock<kStride>(x, o, false, cell, best, place);
  }
  TakeLargerBlock<kStride>(x, columns.end - kLanes, true, cell, best, place);
  return columns.end;
}

#else

template <int kStride>
int64_t TakeLargerVectors(const float*, Columns columns, int32_t, float*, int32_t*) {
  return columns.begin;
}

#endif

// Compares one kernel cell with the maximum so far of a row of outputs. `x` is that cell for output
// 0.
template <typename T>
[[gnu::always_inline]] inline void TakeLarger(const T* x, int64_t stride, Columns columns,
                                              int32_t cell, T* best, int32_t* place) {
  int64_t o = columns.begin;
  if constexpr (sizeof(T) == sizeof(float)) {
    if (stride == 1) o = TakeLargerVectors<1>(x, columns, cell, best, place);
    if (stride == 2) o = TakeLargerVectors<2>(x, columns, cell, best, place);
  }
  for (; o < columns.end; ++o) {
    const T value = x[o * stride];
    const bool larger = value > best[o];
    best[o] = larger ? value : best[o];
    place[o] = larger ? cell : place[o];
  }
}

constexpr int64_t kPiece = 256;  // outputs of a row that are processed at a time

// Computes outputs [first, last) of row `oh`. Positions are as wide as values until the end,
// because mixed widths vectorise poorly.
template <typename T, typename Index>
[[gnu::always_inline]] inline void MaxPiece(const PoolWindow& w, const InsideTable& table,
                                            int64_t oh, int64_t first, int64_t last, const T* x,
                                            T* y, Index* index) {
  T best[kPiece];
  int32_t place[kPiece];
  const int64_t count = last - first;
  std::fill(best, best + count, static_cast<T>(-FLT_MAX));
  std::fill(place, place + count, -1);
  for (int64_t ih = w.h.Begin(oh); ih < w.h.End(oh); ++ih) {
    const int64_t row = (ih - w.h.Start(oh)) * w.w.kernel;
    for (int64_t k = 0; k < w.w.kernel; ++k) {
      const Columns inside = table.At(k);
      const Columns columns = {std::max<int64_t>(0, inside.begin - first),
                               std::min(inside.end, last) - first};
      const T* cell = x + ih * w.w.in + k + w.w.Start(first);
      TakeLarger(cell, w.w.stride, columns, static_cast<int32_t>(row + k), best, place);
    }
  }
  std::copy(best, best + count, y + first);
  if (index == nullptr) return;
  for (int64_t o = 0; o < count; ++o) index[first + o] = static_cast<Index>(place[o]);
}

template <typename T, typename Index>
[[gnu::always_inline]] inline void MaxPlanes(const PoolWindow& w, int64_t planes, const T* x, T* y,
                                             Index* index) {
  const InsideTable table(w.w);
  for (int64_t p = 0; p < planes; ++p, x += w.InSize()) {
    for (int64_t oh = 0; oh < w.h.out; ++oh, y += w.w.out) {
      for (int64_t first = 0; first < w.w.out; first += kPiece) {
        MaxPiece(w, table, oh, first, std::min(w.w.out, first + kPiece), x, y, index);
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
