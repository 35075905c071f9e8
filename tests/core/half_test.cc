// Rounding to half precision and back.
#include "core/half.h"

#include <gtest/gtest.h>

#include <limits>

namespace crema {
namespace {

TEST(HalfTest, EveryValueComesBack) {
  for (uint32_t bits = 0; bits < 1 << 16; ++bits) {
    const float value = HalfToFloat(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(HalfToFloat(FloatToHalf(value)))) << bits;
    } else {
      EXPECT_EQ(FloatToHalf(value), bits);
    }
  }
}

TEST(HalfTest, RoundsToTheNearestAndTiesToEven) {
  const auto round = [](float value) { return HalfToFloat(FloatToHalf(value)); };
  EXPECT_EQ(round(1 + 0x1p-11F), 1);  // half way: 1 is even
  EXPECT_EQ(round(1 + 0x3p-11F), 1 + 0x4p-11F);
  EXPECT_EQ(round(-(1 + 0x1.1p-11F)), -(1 + 0x2p-11F));
  EXPECT_EQ(round(0x1p-25F), 0);
  EXPECT_EQ(round(0x1.1p-25F), 0x1p-24F);
  EXPECT_EQ(round(0x1.ffffp-15F), 0x1p-14F);  // the least normal one
  EXPECT_EQ(round(65519), 65504);
  EXPECT_EQ(round(65520), std::numeric_limits<float>::infinity());
  EXPECT_EQ(round(-1e30F), -std::numeric_limits<float>::infinity());
}

}  // namespace
}  // namespace crema
