#include "math/cpu/blocked_winograd_products.h"

#include <array>
#include <utility>

#include "math/cpu/blocked_winograd_lanes.h"

namespace crema::blocked_winograd {
namespace {

template <int kRows, int kVectors>
CREMA_AVX512 void MultiplyRows(const ProductTile& tile) {
  Lanes sum[kRows][kVectors] = {};
  const float* u = tile.u;
  const float* next = tile.next;
  const float* block = tile.v;
  for (int64_t b = 0; b < tile.blocks; ++b, block += tile.v_block) {
    const float* v = block;
    for (int64_t c = 0; c < kLanes; ++c, ++v, u += kVectors * kLanes, next += tile.next_step) {
      Lanes column[kVectors];
#pragma GCC unroll 2
      for (int i = 0; i < kVectors; ++i) {
        Load(u + i * kLanes, &column[i]);
        __builtin_prefetch(next + i * kLanes, 0, 2);
      }
#pragma GCC unroll 14
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
        for (int i = 0; i < kVectors; ++i) sum[r][i] += v[r * kLanes] * column[i];
      }
    }
  }
#pragma GCC unroll 14
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int i = 0; i < kVectors; ++i) Store(sum[r][i], tile.m + i * tile.m_block + r * kLanes);
  }
}

using ProductFunction = void (*)(const ProductTile&);
template <int kVectors, size_t... kRows>
constexpr std::array<ProductFunction, kMaxRows> Functions(std::index_sequence<kRows...>) {
  return {MultiplyRows<static_cast<int>(kRows) + 1, kVectors>...};
}
constexpr auto kOneVector = Functions<1>(std::make_index_sequence<kMaxRows>());
constexpr auto kTwoVectors = Functions<2>(std::make_index_sequence<kMaxRows>());

template <int kVectors>
CREMA_AVX512 void MultiplyGradientRows(const GradientTile& tile) {
  Lanes sum[kGradientRows][kVectors] = {};
  if (tile.accumulate) {
#pragma GCC unroll 8
    for (int r = 0; r < kGradientRows; ++r) {
#pragma GCC unroll 2
      for (int i = 0; i < kVectors; ++i) {
        Load(tile.sums + r * tile.sums_row + i * kLanes, &sum[r][i]);
      }
    }
  }
  const float* v = tile.v;
  const float* d = tile.d;
  for (int64_t t = 0; t < tile.tiles; ++t, v += kLanes, d += kLanes) {
    Lanes column[kVectors];
#pragma GCC unroll 2
    for (int i = 0; i < kVectors; ++i) Load(d + i * tile.d_block, &column[i]);
#pragma GCC unroll 8
    for (int r = 0; r < kGradientRows; ++r) {
#pragma GCC unroll 2
      for (int i = 0; i < kVectors; ++i) sum[r][i] += v[r] * column[i];
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kGradientRows; ++r) {
#pragma GCC unroll 2
    for (int i = 0; i < kVectors; ++i) {
      Store(sum[r][i], tile.sums + r * tile.sums_row + i * kLanes);
    }
  }
}

}  // namespace

void Multiply(int64_t rows, int64_t vectors, const ProductTile& tile) {
  (vectors == 1 ? kOneVector : kTwoVectors)[static_cast<size_t>(rows - 1)](tile);
}

void MultiplyGradients(int64_t vectors, const GradientTile& tile) {
  vectors == 1 ? MultiplyGradientRows<1>(tile) : MultiplyGradientRows<2>(tile);
}

}  // namespace crema::blocked_winograd
