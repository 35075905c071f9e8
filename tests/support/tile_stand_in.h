// The tile instructions of AMX in plain code, after the operations in Intel's "Architecture
// Instruction Set Extensions Programming Reference" and volume 2 of the Software Developer's
// Manual: LDTILECFG, TILELOADD, TILEZERO, TDPBF16PS, TILESTORED and TILERELEASE. Each thread has
// tiles of its own, as with the real ones. Instructions that would fault throw
// std::logic_error.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "math/cpu/tile_products.h"

namespace crema::test {

class TileUnit {
 public:
  static constexpr int kTiles = 8;
  static constexpr int kMostRows = 16;
  static constexpr int kMostBytes = 64;  // of a row

  static TileUnit& OfThisThread();

  void LoadConfig(const bf16_gradient::TileConfig& config);
  void Release();
  void Load(int tile, const void* memory, int64_t row_bytes);
  void Zero(int tile);
  void Store(int tile, void* memory, int64_t row_bytes) const;
  // sum += a x b.
  void MultiplyBF16(int sum, int a, int b);

 private:
  using Row = std::array<std::byte, kMostBytes>;
  struct Tile {
    std::array<Row, kMostRows> row{};
    int rows = 0;
    int colsb = 0;
  };

  Tile& Configured(int tile);
  const Tile& Configured(int tile) const;

  bool configured_ = false;
  std::array<Tile, kTiles> tiles_{};
};

// In the place of the intrinsics, for bf16_gradient::TileProducts.
struct TileStandIn {
  static void Configure(const bf16_gradient::TileConfig& config) {
    TileUnit::OfThisThread().LoadConfig(config);
  }
  static void Release() { TileUnit::OfThisThread().Release(); }
  template <int kTile>
  static void Load(const void* memory, int64_t row_bytes) {
    TileUnit::OfThisThread().Load(kTile, memory, row_bytes);
  }
  template <int kTile>
  static void Store(void* memory, int64_t row_bytes) {
    TileUnit::OfThisThread().Store(kTile, memory, row_bytes);
  }
  template <int kRow, int kColumn>
  static void Multiply() {
    TileUnit::OfThisThread().MultiplyBF16(bf16_gradient::SumTile(kRow, kColumn),
                                          bf16_gradient::InputTile(kRow),
                                          bf16_gradient::GradientTile(kColumn));
  }
};

}  // namespace crema::test
