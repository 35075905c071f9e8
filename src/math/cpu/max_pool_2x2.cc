#include "math/cpu/max_pool_2x2.h"

#include <algorithm>
#include <cfloat>
#include <cstring>

#include "math/vectorize.h"

namespace crema {
namespace {

#if defined(__GNUC__) && !defined(__clang__)

// Vectors of the compiler, for kLanes outputs: `using` would drop the attribute.
template <int kLanes>
struct Lanes;
template <>
struct Lanes<8> {
  typedef float Values __attribute__((vector_size(32)));        // NOLINT
  typedef int32_t Integers __attribute__((vector_size(32)));    // NOLINT
  typedef uint8_t Bytes __attribute__((vector_size(8)));        // NOLINT
  static constexpr Integers kEven{0, 2, 4, 6, 8, 10, 12, 14};
  static constexpr Integers kOdd{1, 3, 5, 7, 9, 11, 13, 15};
  static constexpr Integers kLow{0, 8, 1, 9, 2, 10, 3, 11};
  static constexpr Integers kHigh{4, 12, 5, 13, 6, 14, 7, 15};
};
template <>
struct Lanes<4> {
  typedef float Values __attribute__((vector_size(16)));      // NOLINT
  typedef int32_t Integers __attribute__((vector_size(16)));  // NOLINT
  typedef uint8_t Bytes __attribute__((vector_size(4)));      // NOLINT
  static constexpr Integers kEven{0, 2, 4, 6};
  static constexpr Integers kOdd{1, 3, 5, 7};
  static constexpr Integers kLow{0, 4, 1, 5};
  static constexpr Integers kHigh{2, 6, 3, 7};
};

template <int kLanes>
[[gnu::always_inline]] inline void TakeLarger(const typename Lanes<kLanes>::Values& value, int cell,
                                              typename Lanes<kLanes>::Values* best,
                                              typename Lanes<kLanes>::Integers* place) {
  const auto larger = value > *best;
  *best = larger ? value : *best;
  *place = larger ? typename Lanes<kLanes>::Integers{} + cell : *place;
}

template <int kLanes>
[[gnu::always_inline]] inline void Max(const float* top, const float* low, float* y,
                                       uint8_t* index) {
  using L = Lanes<kLanes>;
  typename L::Values best = typename L::Values{} - FLT_MAX;
  typename L::Integers place = typename L::Integers{} - 1;
  const float* rows[2] = {top, low};
#pragma GCC unroll 2
  for (int r = 0; r < 2; ++r) {
    typename L::Values first, second;
    std::memcpy(&first, rows[r], sizeof(first));
    std::memcpy(&second, rows[r] + kLanes, sizeof(second));
    TakeLarger<kLanes>(__builtin_shuffle(first, second, L::kEven), 2 * r, &best, &place);
    TakeLarger<kLanes>(__builtin_shuffle(first, second, L::kOdd), 2 * r + 1, &best, &place);
  }
  std::memcpy(y, &best, sizeof(best));
  if (index == nullptr) return;
  const auto bytes = __builtin_convertvector(place, typename L::Bytes);
  std::memcpy(index, &bytes, sizeof(bytes));
}

template <int kLanes>
[[gnu::always_inline]] inline void Spread(const uint8_t* index, const float* dy, float* top,
                                          float* low) {
  using L = Lanes<kLanes>;
  typename L::Values gradient;
  typename L::Bytes bytes;
  std::memcpy(&gradient, dy, sizeof(gradient));
  std::memcpy(&bytes, index, sizeof(bytes));
  const auto place = __builtin_convertvector(bytes, typename L::Integers);
  const typename L::Values zero{};
  float* rows[2] = {top, low};
#pragma GCC unroll 2
  for (int r = 0; r < 2; ++r) {
    const typename L::Values left = place == 2 * r ? gradient : zero;
    const typename L::Values right = place == 2 * r + 1 ? gradient : zero;
    const typename L::Values first = __builtin_shuffle(left, right, L::kLow);
    const typename L::Values second = __builtin_shuffle(left, right, L::kHigh);
    std::memcpy(rows[r], &first, sizeof(first));
    std::memcpy(rows[r] + kLanes, &second, sizeof(second));
  }
}

constexpr bool kHaveVectors = true;

#else

template <int kLanes>
void Max(const float*, const float*, float*, uint8_t*) {}
template <int kLanes>
void Spread(const uint8_t*, const float*, float*, float*) {}
constexpr bool kHaveVectors = false;

#endif

[[gnu::always_inline]] inline void MaxOne(const float* top, const float* low, float* y,
                                          uint8_t* index) {
  const float cells[4] = {top[0], top[1], low[0], low[1]};
  float best = -FLT_MAX;
  uint8_t place = kNoIndex<uint8_t>;
  for (uint8_t k = 0; k < 4; ++k) {
    if (!(cells[k] > best)) continue;
    best = cells[k];
    place = k;
  }
  *y = best;
  if (index != nullptr) *index = place;
}

[[gnu::always_inline]] inline void MaxRow(const float* top, const float* low, int64_t count,
                                          float* y, uint8_t* index) {
  const auto at = [&](int64_t o) { return index == nullptr ? nullptr : index + o; };
  int64_t o = 0;
  if (kHaveVectors) {
    for (; o + 8 <= count; o += 8) Max<8>(top + 2 * o, low + 2 * o, y + o, at(o));
    for (; o + 4 <= count; o += 4) Max<4>(top + 2 * o, low + 2 * o, y + o, at(o));
  }
  for (; o < count; ++o) MaxOne(top + 2 * o, low + 2 * o, y + o, at(o));
}

[[gnu::always_inline]] inline void SpreadRow(const uint8_t* index, const float* dy, int64_t count,
                                             float* top, float* low) {
  int64_t o = 0;
  if (kHaveVectors) {
    for (; o + 8 <= count; o += 8) Spread<8>(index + o, dy + o, top + 2 * o, low + 2 * o);
    for (; o + 4 <= count; o += 4) Spread<4>(index + o, dy + o, top + 2 * o, low + 2 * o);
  }
  for (; o < count; ++o) {
    for (int k = 0; k < 4; ++k) (k < 2 ? top : low)[2 * o + k % 2] = index[o] == k ? dy[o] : 0.0F;
  }
}

bool IsHalving(const PoolAxis& axis) {
  return axis.kernel == 2 && axis.stride == 2 && axis.pad == 0 && 2 * axis.out <= axis.in;
}

}  // namespace

bool IsMaxPool2x2(const PoolWindow& window) { return IsHalving(window.h) && IsHalving(window.w); }

CREMA_MULTIVERSION void MaxPool2x2(const PoolWindow& w, int64_t planes, const float* x, float* y,
                                   uint8_t* index) {
  const int64_t width = w.w.in, count = w.w.out, rows = w.h.out, plane = w.InSize();
  for (int64_t p = 0; p < planes; ++p) {
    for (int64_t oh = 0; oh < rows; ++oh) {
      const float* top = x + p * plane + 2 * oh * width;
      const int64_t o = (p * rows + oh) * count;
      MaxRow(top, top + width, count, y + o, index == nullptr ? nullptr : index + o);
    }
  }
}

// Every cell of dx belongs to one window at most, so each is written once.
CREMA_MULTIVERSION void MaxPool2x2Backward(const PoolWindow& w, int64_t planes,
                                           const uint8_t* index, const float* dy, float* dx) {
  const int64_t width = w.w.in, count = w.w.out, rows = w.h.out, plane = w.InSize();
  for (int64_t p = 0; p < planes; ++p, dx += plane) {
    for (int64_t oh = 0; oh < rows; ++oh) {
      float* top = dx + 2 * oh * width;
      const int64_t o = (p * rows + oh) * count;
      SpreadRow(index + o, dy + o, count, top, top + width);
      std::fill(top + 2 * count, top + width, 0.0F);
      std::fill(top + width + 2 * count, top + 2 * width, 0.0F);
    }
    std::fill(dx + 2 * rows * width, dx + plane, 0.0F);
  }
}

}  // namespace crema
