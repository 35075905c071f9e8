// Internal to the gradient of weights in bfloat16: its products by the tile instructions of AMX,
// 32 channels x 32 outputs over 32 places at a time. A template over the instructions, so that
// tests run it on processors without them.
//
// Tiles has static members Configure(const TileConfig&) and Release() for the calling thread, and
// Load<tile>(memory, bytes from row to row), Store<tile>(same) and Multiply<row, column>(): tile
// SumTile(row, column) += tile InputTile(row) x tile GradientTile(column).
#pragma once

#include <cstddef>
#include <cstdint>

#include "math/cpu/bf16_gradient_plan.h"
#include "math/cpu/bf16_gradient_products.h"

namespace crema::bf16_gradient {

// The operand of LDTILECFG, with Intel's names; 64 bytes.
struct alignas(64) TileConfig {
  uint8_t palette = 0;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t colsb[16] = {};  // bytes a row, by tile
  uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64);

constexpr int SumTile(int row, int column) { return 2 * row + column; }
constexpr int InputTile(int row) { return 4 + row; }
constexpr int GradientTile(int column) { return 6 + column; }

// All eight tiles of palette 1 with 16 rows of 64 bytes: 16 sums, 32 places of a channel, or a pair
// of places of 16 outputs.
constexpr TileConfig WholeTiles() {
  TileConfig config;
  config.palette = 1;
  for (int tile = 0; tile < 8; ++tile) {
    config.colsb[tile] = 64;
    config.rows[tile] = 16;
  }
  return config;
}
inline constexpr TileConfig kWholeTiles = WholeTiles();

template <typename Tiles>
class TileProducts {
 public:
  TileProducts() { Tiles::Configure(kWholeTiles); }
  ~TileProducts() { Tiles::Release(); }
  TileProducts(const TileProducts&) = delete;
  TileProducts& operator=(const TileProducts&) = delete;

  void Multiply(int rows, int columns, const ProductOperands& o) const {
    if (rows == 1) {
      columns == 1 ? Run<1, 1>(o) : Run<1, 2>(o);
    } else {
      columns == 1 ? Run<2, 1>(o) : Run<2, 2>(o);
    }
  }

 private:
  static constexpr int64_t kSumBytes = kLanes * sizeof(float);
  static constexpr int64_t kPairBytes = 2 * kLanes * sizeof(BFloat16);

  template <int kRows, int kColumns>
  static void Run(const ProductOperands& o) {
    LoadSums<kRows, kColumns>(o);
    const int64_t row_bytes = o.input_row * static_cast<int64_t>(sizeof(BFloat16));
    for (int64_t i = 0; i < o.places; i += kPlaces) {
      const BFloat16* inputs = o.inputs + i;
      const BFloat16* gradients = o.gradients + i * kLanes;
      Tiles::template Load<GradientTile(0)>(gradients, kPairBytes);
      if constexpr (kColumns == 2) {
        Tiles::template Load<GradientTile(1)>(gradients + o.gradient_block, kPairBytes);
      }
      Tiles::template Load<InputTile(0)>(inputs, row_bytes);
      Tiles::template Multiply<0, 0>();
      if constexpr (kColumns == 2) Tiles::template Multiply<0, 1>();
      if constexpr (kRows == 2) {
        Tiles::template Load<InputTile(1)>(inputs + o.input_block, row_bytes);
        Tiles::template Multiply<1, 0>();
        if constexpr (kColumns == 2) Tiles::template Multiply<1, 1>();
      }
    }
    StoreSums<kRows, kColumns>(o);
  }

  template <int kRows, int kColumns>
  static void LoadSums(const ProductOperands& o) {
    Tiles::template Load<SumTile(0, 0)>(o.sums, kSumBytes);
    if constexpr (kColumns == 2) Tiles::template Load<SumTile(0, 1)>(o.sums + kTile, kSumBytes);
    if constexpr (kRows == 2) {
      Tiles::template Load<SumTile(1, 0)>(o.sums + o.sum_row, kSumBytes);
      if constexpr (kColumns == 2) {
        Tiles::template Load<SumTile(1, 1)>(o.sums + o.sum_row + kTile, kSumBytes);
      }
    }
  }

  template <int kRows, int kColumns>
  static void StoreSums(const ProductOperands& o) {
    Tiles::template Store<SumTile(0, 0)>(o.sums, kSumBytes);
    if constexpr (kColumns == 2) Tiles::template Store<SumTile(0, 1)>(o.sums + kTile, kSumBytes);
    if constexpr (kRows == 2) {
      Tiles::template Store<SumTile(1, 0)>(o.sums + o.sum_row, kSumBytes);
      if constexpr (kColumns == 2) {
        Tiles::template Store<SumTile(1, 1)>(o.sums + o.sum_row + kTile, kSumBytes);
      }
    }
  }
};

}  // namespace crema::bf16_gradient
