#include "data/pipeline/shuffle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "data/expect_error.h"

namespace crema {
namespace {

using Kind = OrderOptions::Kind;

std::vector<uint64_t> Samples(SampleOrder order, uint64_t begin, uint64_t end) {
  std::vector<uint64_t> samples;
  for (uint64_t ordinal = begin; ordinal < end; ++ordinal) {
    samples.push_back(order.SampleAt(ordinal));
  }
  return samples;
}

bool IsAll(std::vector<uint64_t> samples, uint64_t begin, uint64_t end) {
  std::ranges::sort(samples);
  std::vector<uint64_t> all;
  for (uint64_t i = begin; i < end; ++i) all.push_back(i);
  return samples == all;
}

TEST(SampleOrder, InOrderWraps) {
  EXPECT_EQ(Samples(SampleOrder(3, {}), 2, 7), (std::vector<uint64_t>{2, 0, 1, 2, 0}));
}

TEST(SampleOrder, ShuffledIsAnotherPermutationEachEpoch) {
  const SampleOrder order(50, {.kind = Kind::kShuffled});
  const auto first = Samples(order, 0, 50);
  const auto second = Samples(order, 50, 100);
  EXPECT_TRUE(IsAll(first, 0, 50));
  EXPECT_TRUE(IsAll(second, 0, 50));
  EXPECT_NE(first, second);
  EXPECT_EQ(Samples(order, 0, 50), first);
  EXPECT_NE(Samples(SampleOrder(50, {.kind = Kind::kShuffled, .seed = 2}), 0, 50), first);
  EXPECT_NE(Samples(SampleOrder(50, {.kind = Kind::kShuffled, .layer_id = 7}), 0, 50), first);
}

TEST(SampleOrder, BlocksArePermutedWithinThemselves) {
  const SampleOrder order(25, {.kind = Kind::kBlocks, .block = 10});
  for (const uint64_t epoch : {0, 25, 50}) {
    EXPECT_TRUE(IsAll(Samples(order, epoch, epoch + 10), 0, 10));
    EXPECT_TRUE(IsAll(Samples(order, epoch + 10, epoch + 20), 10, 20));
    EXPECT_TRUE(IsAll(Samples(order, epoch + 20, epoch + 25), 20, 25));
  }
  EXPECT_NE(Samples(order, 0, 10), Samples(order, 25, 35));
  // A block larger than the data set is all of it.
  EXPECT_TRUE(IsAll(Samples(SampleOrder(5, {.kind = Kind::kBlocks, .block = 100}), 5, 10), 0, 5));
}

TEST(SampleOrder, AnyOrdinalCanBeAskedForByItself) {
  for (const Kind kind : {Kind::kInOrder, Kind::kShuffled, Kind::kBlocks}) {
    const OrderOptions options{.kind = kind, .block = 4};
    const auto all = Samples(SampleOrder(11, options), 0, 40);
    SampleOrder order(11, options);
    for (const uint64_t ordinal : {39, 0, 12, 11, 10, 27, 3}) {
      EXPECT_EQ(order.SampleAt(ordinal), all[ordinal]);
      EXPECT_EQ(SampleOrder(11, options).SampleAt(ordinal), all[ordinal]);
    }
  }
}

TEST(SampleOrder, FirstPlacesAreTakenByAllSamplesAlike) {
  constexpr int kRuns = 4000;
  std::vector<int> times(8);
  for (int seed = 0; seed < kRuns; ++seed) {
    SampleOrder order(8, {.kind = Kind::kShuffled, .seed = static_cast<uint64_t>(seed)});
    ++times[order.SampleAt(0)];
  }
  for (const int n : times) EXPECT_NEAR(n, kRuns / 8, 120);  // more than five deviations
}

TEST(SampleOrder, TooManySamplesToPermuteNeedABlock) {
  const uint64_t many = uint64_t{1} << 32;
  testing::ExpectError(ErrorCode::kUnsupported, "shuffle_buffer",
                       [&] { SampleOrder(many, {.kind = Kind::kShuffled}); });
  SampleOrder order(many, {.kind = Kind::kBlocks, .block = 5});
  EXPECT_LT(order.SampleAt(many - 1), many);
}

TEST(Shard, EachOrdinalBelongsToOneAndPositionsAreFound) {
  for (uint64_t world = 1; world <= 4; ++world) {
    std::vector<int> owners(30);
    for (uint64_t rank = 0; rank < world; ++rank) {
      const Shard shard{.rank = rank, .world = world};
      for (uint64_t p = 0; shard.Ordinal(p) < owners.size(); ++p) ++owners[shard.Ordinal(p)];
      for (uint64_t ordinal = 0; ordinal < 30; ++ordinal) {
        const uint64_t p = shard.PositionFrom(ordinal);
        EXPECT_GE(shard.Ordinal(p), ordinal);
        EXPECT_TRUE(p == 0 || shard.Ordinal(p - 1) < ordinal);
      }
    }
    EXPECT_EQ(owners, std::vector<int>(30, 1));
  }
}

}  // namespace
}  // namespace crema
