// Rounding to bfloat16 and back.
#include "core/bfloat16.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "core/memory_format.h"
#include "math/cpu/lanes.h"

namespace crema {
namespace {

float FromWord(uint32_t word) { return std::bit_cast<float>(word); }

TEST(BFloat16Test, EveryValueComesBack) {
  for (uint32_t bits = 0; bits < 1 << 16; ++bits) {
    const float value = FromWord(bits << 16);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(float{BFloat16(value)})) << bits;
    } else {
      EXPECT_EQ(BFloat16(value).bits, bits);
      EXPECT_EQ(std::bit_cast<uint32_t>(float{BFloat16(value)}), bits << 16);
    }
  }
}

TEST(BFloat16Test, RoundsToTheNearestAndTiesToEven) {
  EXPECT_EQ(float{BFloat16(1.0F + 0x1p-9F)}, 1.0F);
  EXPECT_EQ(float{BFloat16(1.0F + 0x1p-8F)}, 1.0F);                // half way: 1 is even
  EXPECT_EQ(float{BFloat16(1.0F + 0x3p-8F)}, 1.0F + 0x4p-8F);      // half way: upwards
  EXPECT_EQ(float{BFloat16(1.0F + 0x1.002p-8F)}, 1.0F + 0x2p-8F);  // just above
  EXPECT_EQ(float{BFloat16(-1.0F - 0x3p-8F)}, -1.0F - 0x4p-8F);
  EXPECT_TRUE(std::isinf(float{BFloat16(std::numeric_limits<float>::max())}));
  EXPECT_EQ(float{BFloat16(-std::numeric_limits<float>::infinity())},
            -std::numeric_limits<float>::infinity());
  for (float value = 1e-30F; value < 1e30F; value *= 1.37F) {
    EXPECT_LE(std::abs(float{BFloat16(value)} - value), value * 0x1p-8F) << value;
  }
}

TEST(BFloat16Test, NaNStaysNaN) {
  for (const uint32_t word : {0x7F800001U, 0x7FFFFFFFU, 0xFF80FFFFU, 0xFFFFFFFFU}) {
    EXPECT_TRUE(std::isnan(float{BFloat16(FromWord(word))})) << word;
  }
}

// Vectors round like single numbers.
TEST(BFloat16Test, LanesAreTheSame) {
  using L = Lanes<16>;
  for (uint32_t word = 0; word < 0xFFFF0000U; word += 0xF0F1) {
    alignas(64) float values[16];
    BFloat16 rounded[16];
    float back[16];
    for (uint32_t i = 0; i < 16; ++i) values[i] = FromWord(word + i * 0x1235);
    L::Floats lanes;
    L::Load(values, &lanes);
    L::Store(lanes, rounded);
    L::Load(rounded, &lanes);
    L::Store(lanes, back);
    for (int i = 0; i < 16; ++i) {
      ASSERT_EQ(rounded[i].bits, BFloat16(values[i]).bits) << values[i];
      ASSERT_EQ(std::bit_cast<uint32_t>(back[i]), uint32_t{rounded[i].bits} << 16);
    }
  }
}

TEST(BFloat16Test, NeedsBlocksOfSixteen) {
  if (!HasBFloat16()) GTEST_SKIP() << "this processor does not multiply bfloat16";
  EXPECT_EQ(ChannelBlock(), 16);
}

}  // namespace
}  // namespace crema
