// The stand-in of AMX against what Intel's manual says of its instructions.
#include "support/tile_stand_in.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "core/bfloat16.h"
#include "core/rng.h"

namespace crema {
namespace {

using bf16_gradient::TileConfig;
using test::TileUnit;

// Tile 0: rows x columns floats; 1: rows x pairs; 2: pairs x columns.
TileConfig Config(int rows, int pairs, int columns) {
  TileConfig config;
  config.palette = 1;
  const auto set = [&](int tile, int tile_rows, int elements) {
    config.rows[tile] = static_cast<uint8_t>(tile_rows);
    config.colsb[tile] = static_cast<uint16_t>(4 * elements);
  };
  set(0, rows, columns);
  set(1, rows, pairs);
  set(2, pairs, columns);
  return config;
}

std::vector<BFloat16> RandomTile(int count, uint64_t stream) {
  const RandomStream random(5, stream);
  std::vector<BFloat16> values;
  for (int i = 0; i < count; ++i) {
    values.emplace_back(static_cast<float>(2 * random.Uniform(static_cast<uint64_t>(i)) - 1));
  }
  return values;
}

struct Sizes {
  int rows, pairs, columns;
};

void ExpectProductOfSizes(const Sizes& s) {
  TileUnit unit;
  unit.LoadConfig(Config(s.rows, s.pairs, s.columns));
  const auto a = RandomTile(s.rows * s.pairs * 2, 1), b = RandomTile(s.pairs * s.columns * 2, 2);
  std::vector<float> sums(static_cast<size_t>(s.rows * s.columns), 0.5F);
  unit.Load(0, sums.data(), s.columns * 4);
  unit.Load(1, a.data(), s.pairs * 4);
  unit.Load(2, b.data(), s.columns * 4);
  unit.MultiplyBF16(0, 1, 2);
  unit.Store(0, sums.data(), s.columns * 4);
  for (int m = 0; m < s.rows; ++m) {
    for (int n = 0; n < s.columns; ++n) {
      double expected = 0.5;
      for (int k = 0; k < 2 * s.pairs; ++k) {
        // Pair k / 2 of column n lies at 2 * n of row k / 2.
        expected += double{float{a[static_cast<size_t>(m * 2 * s.pairs + k)]}} *
                    double{float{b[static_cast<size_t>((k / 2 * s.columns + n) * 2 + k % 2)]}};
      }
      ASSERT_NEAR(sums[static_cast<size_t>(m * s.columns + n)], expected, 1e-5) << m << " " << n;
    }
  }
}

TEST(TileStandIn, MultipliesPairsOfWholeAndPartialTiles) {
  for (const Sizes& s : {Sizes{16, 16, 16}, {5, 3, 7}, {1, 16, 2}, {16, 1, 16}}) {
    ASSERT_NO_FATAL_FAILURE(ExpectProductOfSizes(s));
  }
}

// 2^24 and 1 are lost in one sum, but not where even and odd elements are added up apart.
TEST(TileStandIn, AddsEvenAndOddElementsApart) {
  TileUnit unit;
  unit.LoadConfig(Config(1, 2, 1));
  const BFloat16 a[] = {0x1p12F, 1, -0x1p12F, 1}, b[] = {0x1p12F, 1, 0x1p12F, 1};
  float sum = 0;
  unit.Load(0, &sum, 4);
  unit.Load(1, a, 8);
  unit.Load(2, b, 4);
  unit.MultiplyBF16(0, 1, 2);
  unit.Store(0, &sum, 4);
  EXPECT_EQ(sum, 2);
}

TEST(TileStandIn, TakesSubnormalNumbersForZeroAndKeepsNan) {
  TileUnit unit;
  unit.LoadConfig(Config(1, 1, 2));
  const BFloat16 a[] = {0x1p-130F, 1}, b[] = {0x1p100F, 0, 0, NAN};
  float sums[] = {std::numeric_limits<float>::denorm_min(), 1};
  unit.Load(0, sums, 8);
  unit.Load(1, a, 4);
  unit.Load(2, b, 8);
  unit.MultiplyBF16(0, 1, 2);
  unit.Store(0, sums, 8);
  EXPECT_EQ(sums[0], 0);
  EXPECT_TRUE(std::isnan(sums[1]));
}

TEST(TileStandIn, LoadsAndStoresRowsOfAnyDistanceAndNoMore) {
  TileUnit unit;
  unit.LoadConfig(Config(2, 1, 3));
  std::vector<float> from = {1, 2, 3, 9, 9, 4, 5, 6, 9, 9}, to(10, 7);
  unit.Load(0, from.data(), 20);
  unit.Store(0, to.data(), 16);
  EXPECT_EQ(to, (std::vector<float>{1, 2, 3, 7, 4, 5, 6, 7, 7, 7}));
  unit.Zero(0);
  unit.Store(0, to.data(), 12);
  EXPECT_EQ(to, (std::vector<float>{0, 0, 0, 0, 0, 0, 6, 7, 7, 7}));
}

TEST(TileStandIn, FaultsWhereTheProcessorDoes) {
  TileUnit unit;
  EXPECT_THROW(unit.Zero(0), std::logic_error);  // not configured
  const auto faults = [&](const TileConfig& config) {
    EXPECT_THROW(unit.LoadConfig(config), std::logic_error);
  };
  TileConfig config = Config(16, 16, 16);
  config.palette = 2;
  faults(config);
  faults(Config(17, 16, 16));
  faults(Config(16, 16, 17));
  faults(Config(0, 16, 16));
  config = Config(16, 16, 16);
  config.rows[8] = 1;
  faults(config);
  config = Config(16, 16, 16);
  config.reserved[3] = 1;
  faults(config);

  config = Config(4, 5, 6);
  config.rows[2] = 4;  // pairs of the one are not those of the other
  unit.LoadConfig(config);
  EXPECT_THROW(unit.MultiplyBF16(0, 1, 2), std::logic_error);
  EXPECT_THROW(unit.MultiplyBF16(0, 1, 1), std::logic_error);
  EXPECT_THROW(unit.Zero(3), std::logic_error);  // without a size
  unit.Release();
  EXPECT_THROW(unit.Zero(0), std::logic_error);
}

TEST(TileStandIn, ConfigurationHasThePlacesOfTheManual) {
  EXPECT_EQ(offsetof(TileConfig, start_row), 1U);
  EXPECT_EQ(offsetof(TileConfig, colsb), 16U);
  EXPECT_EQ(offsetof(TileConfig, rows), 48U);
}

}  // namespace
}  // namespace crema
