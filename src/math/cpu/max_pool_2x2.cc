#include "math/cpu/max_pool_2x2.h"

#include <algorithm>
#include <cfloat>
#include <cstring>

#include "math/vectorize.h"

namespace crema {
namespace {

#if defined(__GNUC__) && !defined(__clang__)

// Vector types of the compiler, for four outputs: wider ones would be narrowed to bytes one by one.
constexpr int kLanes = 4;
typedef float Values __attribute__((vector_size(16)));      // NOLINT: `using` drops the attribute
typedef int32_t Integers __attribute__((vector_size(16)));  // NOLINT
typedef uint8_t Bytes __attribute__((vector_size(4)));      // NOLINT
constexpr Integers kEven{0, 2, 4, 6};
constexpr Integers kOdd{1, 3, 5, 7};
constexpr Integers kLow{0, 4, 1, 5};
constexpr Integers kHigh{2, 6, 3, 7};

[[gnu::always_inline]] inline void TakeLarger(const Values& value, int cell, Values* best,
                                              Integers* place) {
  const auto larger = value > *best;
  *best = larger ? value : *best;
  *place = larger ? Integers{} + cell : *place;
}

[[gnu::always_inline]] inline void Max(const float* top, const float* low, float* y,
                                       uint8_t* index) {
  Values best = Values{} - FLT_MAX;
  Integers place = Integers{} - 1;
  const float* rows[2] = {top, low};
#pragma GCC unroll 2
  for (int r = 0; r < 2; ++r) {
    Values first, second;
    std::memcpy(&first, rows[r], sizeof(first));
    std::memcpy(&second, rows[r] + kLanes, sizeof(second));
    TakeLarger(__builtin_shuffle(first, second, kEven), 2 * r, &best, &place);
    TakeLarger(__builtin_shuffle(first, second, kOdd), 2 * r + 1, &best, &place);
  }
  std::memcpy(y, &best, sizeof(best));
  if (index == nullptr) return;
  const auto bytes = __builtin_convertvector(place, Bytes);
  std::memcpy(index, &bytes, sizeof(bytes));
}

[[gnu::always_inline]] inline void Spread(const uint8_t* index, const float* dy, float* top,
                                          float* low) {
  Values gradient;
  Bytes bytes;
  std::memcpy(&gradient, dy, sizeof(gradient));
  std::memcpy(&bytes, index, sizeof(bytes));
  const auto place = __builtin_convertvector(bytes, Integers);
  const Values zero{};
  float* rows[2] = {top, low};
#pragma GCC unroll 2
  for (int r = 0; r < 2; ++r) {
    const Values left = place == 2 * r ? gradient : zero;
    const Values right = place == 2 * r + 1 ? gradient : zero;
    const Values first = __builtin_shuffle(left, right, kLow);
    const Values second = __builtin_shuffle(left, right, kHigh);
    std::memcpy(rows[r], &first, sizeof(first));
    std::memcpy(rows[r] + kLanes, &second, sizeof(second));
  }
}

constexpr bool kHaveVectors = true;

#else

constexpr int kLanes = 4;
void Max(const float*, const float*, float*, uint8_t*) {}
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
    for (; o + kLanes <= count; o += kLanes) Max(top + 2 * o, low + 2 * o, y + o, at(o));
  }
  for (; o < count; ++o) MaxOne(top + 2 * o, low + 2 * o, y + o, at(o));
}

[[gnu::always_inline]] inline void SpreadRow(const uint8_t* index, const float* dy, int64_t count,
                                             float* top, float* low) {
  int64_t o = 0;
  if (kHaveVectors) {
    for (; o + kLanes <= count; o += kLanes) {
      Spread(index + o, dy + o, top + 2 * o, low + 2 * o);
    }
  }
  for (; o < count; ++o) {
    top[2 * o] = index[o] == 0 ? dy[o] : 0.0F;
    top[2 * o + 1] = index[o] == 1 ? dy[o] : 0.0F;
    low[2 * o] = index[o] == 2 ? dy[o] : 0.0F;
    low[2 * o + 1] = index[o] == 3 ? dy[o] : 0.0F;
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
