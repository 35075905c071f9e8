#include "support/tile_stand_in.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <stdexcept>

namespace crema::test {
namespace {

void RequireOfTiles(bool holds, const char* fault) {
  if (!holds) throw std::logic_error(fault);
}

// DAZ and FTZ, whatever MXCSR says.
float Flushed(float value) {
  return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0F, value) : value;
}

template <typename T>
T Element(const void* row, int index) {
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(row) + index * sizeof(T), sizeof(T));
  return value;
}

float Widened(const void* row, int index) {
  return Flushed(std::bit_cast<float>(uint32_t{Element<uint16_t>(row, index)} << 16));
}

}  // namespace

TileUnit& TileUnit::OfThisThread() {
  static thread_local TileUnit unit;
  return unit;
}

void TileUnit::LoadConfig(const bf16_gradient::TileConfig& config) {
  // Palette 0 releases; of the others there is only 1.
  RequireOfTiles(config.palette <= 1, "#GP: palette");
  if (config.palette == 0) return Release();
  for (const uint8_t byte : config.reserved) RequireOfTiles(byte == 0, "#GP: reserved bytes");
  for (int i = 0; i < 16; ++i) {
    if (i >= kTiles) {
      RequireOfTiles(config.colsb[i] == 0 && config.rows[i] == 0, "#GP: more tiles than there are");
      continue;
    }
    RequireOfTiles(config.colsb[i] <= kMostBytes && config.rows[i] <= kMostRows,
                   "#GP: size of a tile");
    RequireOfTiles((config.colsb[i] == 0) == (config.rows[i] == 0), "#GP: half a size");
    tiles_[static_cast<size_t>(i)] = {.row = {}, .rows = config.rows[i], .colsb = config.colsb[i]};
  }
  configured_ = true;
}

void TileUnit::Release() { *this = TileUnit(); }

TileUnit::Tile& TileUnit::Configured(int tile) {
  RequireOfTiles(configured_, "#UD: no configuration");
  Tile& t = tiles_.at(static_cast<size_t>(tile));
  RequireOfTiles(t.rows > 0 && t.colsb > 0, "#UD: tile without a size");
  return t;
}
const TileUnit::Tile& TileUnit::Configured(int tile) const {
  return const_cast<TileUnit*>(this)->Configured(tile);
}

// Rows after those of the tile, and bytes after those of a row, become zeros.
void TileUnit::Load(int tile, const void* memory, int64_t row_bytes) {
  Tile& t = Configured(tile);
  t.row = {};
  for (int r = 0; r < t.rows; ++r) {
    std::memcpy(t.row[static_cast<size_t>(r)].data(),
                static_cast<const std::byte*>(memory) + r * row_bytes,
                static_cast<size_t>(t.colsb));
  }
}

void TileUnit::Zero(int tile) { Configured(tile).row = {}; }

void TileUnit::Store(int tile, void* memory, int64_t row_bytes) const {
  const Tile& t = Configured(tile);
  for (int r = 0; r < t.rows; ++r) {
    std::memcpy(static_cast<std::byte*>(memory) + r * row_bytes,
                t.row[static_cast<size_t>(r)].data(), static_cast<size_t>(t.colsb));
  }
}

// The even and the odd elements of pairs are summed up apart, each by multiply-adds that are
// rounded once, and only then added to what was there.
void TileUnit::MultiplyBF16(int sum, int a, int b) {
  Tile& c = Configured(sum);
  const Tile &x = Configured(a), &y = Configured(b);
  RequireOfTiles(sum != a && sum != b && a != b, "#UD: the same tile twice");
  RequireOfTiles(x.colsb % 4 == 0 && y.colsb % 4 == 0 && c.colsb % 4 == 0, "#UD: half an element");
  RequireOfTiles(c.rows == x.rows && c.colsb == y.colsb && x.colsb / 4 == y.rows, "#UD: sizes");
  for (int m = 0; m < c.rows; ++m) {
    Row& row = c.row[static_cast<size_t>(m)];
    Row result{};
    for (int n = 0; n < c.colsb / 4; ++n) {
      float even = 0, odd = 0;
      for (int k = 0; k < x.colsb / 4; ++k) {
        const void* left = x.row[static_cast<size_t>(m)].data();
        const void* right = y.row[static_cast<size_t>(k)].data();
        even = Flushed(std::fma(Widened(left, 2 * k), Widened(right, 2 * n), even));
        odd = Flushed(std::fma(Widened(left, 2 * k + 1), Widened(right, 2 * n + 1), odd));
      }
      const float before = Flushed(Element<float>(row.data(), n));
      const float after = Flushed(before + Flushed(even + odd));
      std::memcpy(result.data() + n * sizeof(float), &after, sizeof(after));
    }
    row = result;
  }
  for (int m = c.rows; m < kMostRows; ++m) c.row[static_cast<size_t>(m)] = {};
}

}  // namespace crema::test
