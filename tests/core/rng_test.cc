#include "core/rng.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

namespace crema {
namespace {

using Words = std::array<uint32_t, 4>;

// The known-answer vectors of Random123 for philox4x32-10.
TEST(PhiloxTest, MatchesThePublishedVectors) {
  EXPECT_EQ(Philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(HashNameTest, IsFnv1a) {
  EXPECT_EQ(HashName(""), 0xcbf29ce484222325);
  EXPECT_EQ(HashName("a"), 0xaf63dc4c8601ec8c);
  EXPECT_EQ(HashName("foobar"), 0x85944171f73967e8);
}

TEST(MixBitsTest, DependsOnBothArgumentsAndTheirOrder) {
  const std::set<uint64_t> values = {MixBits(0, 0), MixBits(0, 1), MixBits(1, 0), MixBits(1, 1)};
  EXPECT_EQ(values.size(), 4u);
}

TEST(RandomStreamTest, ElementIsAFunctionOfSeedStreamStepAndIndex) {
  const RandomStream stream(1, 2, 3);
  EXPECT_EQ(stream.Bits(77), RandomStream(1, 2, 3).Bits(77));
  EXPECT_NE(stream.Bits(77), RandomStream(9, 2, 3).Bits(77));
  EXPECT_NE(stream.Bits(77), RandomStream(1, 9, 3).Bits(77));
  EXPECT_NE(stream.Bits(77), RandomStream(1, 2, 9).Bits(77));
  EXPECT_NE(stream.Bits(77), stream.Bits(78));
}

TEST(RandomStreamTest, BlocksHoldTheElementsInOrder) {
  const RandomStream stream(1, 2, 3);
  const Words block = stream.Block(5);
  for (uint64_t i = 0; i < 4; ++i) EXPECT_EQ(stream.Bits(20 + i), block[i]);
}

TEST(RandomStreamTest, LargeIndicesAndStepsDiffer) {
  const RandomStream stream(1, 2);
  EXPECT_NE(stream.Bits(0), stream.Bits(uint64_t{1} << 40));
  EXPECT_NE(RandomStream(1, 2, 0).Bits(0), RandomStream(1, 2, uint64_t{1} << 40).Bits(0));
}

TEST(RandomStreamTest, UniformHasTheMomentsOfItsDistribution) {
  const RandomStream stream(4, 5);
  constexpr int kCount = 100000;
  double sum = 0, squares = 0;
  for (uint64_t i = 0; i < kCount; ++i) {
    const double u = stream.Uniform(i);
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    sum += u;
    squares += u * u;
  }
  EXPECT_NEAR(sum / kCount, 0.5, 0.004);
  EXPECT_NEAR(squares / kCount, 1 / 3.0, 0.004);
}

TEST(RandomStreamTest, GaussianHasTheMomentsOfItsDistribution) {
  const RandomStream stream(4, 5);
  constexpr int kCount = 100000;
  double sum = 0, squares = 0, fourth = 0;
  for (uint64_t i = 0; i < kCount; ++i) {
    const double g = stream.Gaussian(i);
    ASSERT_TRUE(std::isfinite(g));
    sum += g;
    squares += g * g;
    fourth += g * g * g * g;
  }
  EXPECT_NEAR(sum / kCount, 0, 0.013);
  EXPECT_NEAR(squares / kCount, 1, 0.018);
  EXPECT_NEAR(fourth / kCount, 3, 0.13);
}

TEST(RandomStreamTest, BelowIsEven) {
  const RandomStream stream(4, 5);
  std::vector<int> counts(7);
  for (uint64_t i = 0; i < 70000; ++i) ++counts.at(stream.Below(i, 7));
  for (int count : counts) EXPECT_NEAR(count, 10000, 400);
  EXPECT_EQ(stream.Below(3, 1), 0u);
}

}  // namespace
}  // namespace crema
