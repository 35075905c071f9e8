// Orders of samples by their lengths.
#include "data/pipeline/length_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

namespace crema {
namespace {

std::vector<uint32_t> RandomLengths(uint32_t count) {
  const RandomStream random(7, 1);
  std::vector<uint32_t> lengths;
  for (uint32_t i = 0; i < count; ++i) {
    lengths.push_back(10 + static_cast<uint32_t>(random.Below(i, 191)));
  }
  return lengths;
}

std::vector<uint32_t> Shuffle(const std::vector<uint32_t>& lengths, uint64_t first, uint64_t group,
                              uint64_t epoch = 0) {
  return ShuffleByLength(lengths, first, group, RandomStream(1, 2, epoch),
                         RandomStream(1, 3, epoch));
}

std::vector<uint32_t> AllOf(size_t count) {
  std::vector<uint32_t> all(count);
  std::iota(all.begin(), all.end(), 0u);
  return all;
}

std::vector<uint32_t> Sorted(std::vector<uint32_t> order) {
  std::ranges::sort(order);
  return order;
}

TEST(LengthOrder, SortsByLengthAndKeepsTheOrderOfEqualOnes) {
  const std::vector<uint32_t> lengths = {5, 3, 5, 1, 3};
  EXPECT_EQ(OrderByLength(lengths), (std::vector<uint32_t>{3, 1, 4, 0, 2}));
}

TEST(LengthOrder, EachSampleOccursOnceForAnyBeginAndGroup) {
  for (const size_t count : {0, 1, 7, 100}) {
    const std::vector<uint32_t> lengths = RandomLengths(static_cast<uint32_t>(count));
    for (const uint64_t first : {0, 1, 15, 16, 1000}) {
      for (const uint64_t group : {1, 3, 16, 200}) {
        EXPECT_EQ(Sorted(Shuffle(lengths, first, group)), AllOf(count));
      }
    }
  }
}

// The steps that a batch has, and those of its samples.
TEST(LengthOrder, WholeGroupsHoldSamplesOfSimilarLength) {
  const std::vector<uint32_t> lengths = RandomLengths(1000);
  constexpr uint64_t kFirst = 5;
  constexpr uint64_t kGroup = 16;
  const std::vector<uint32_t> order = Shuffle(lengths, kFirst, kGroup);
  uint64_t padded = 0;
  uint64_t real = 0;
  for (size_t begin = kGroup - kFirst; begin + kGroup <= order.size(); begin += kGroup) {
    uint32_t longest = 0;
    for (size_t i = begin; i < begin + kGroup; ++i) {
      longest = std::max(longest, lengths[order[i]]);
      real += lengths[order[i]];
    }
    padded += longest * kGroup;
  }
  EXPECT_LT(static_cast<double>(padded), 1.08 * static_cast<double>(real));
}

TEST(LengthOrder, GroupsAndTheirSamplesDifferFromEpochToEpoch) {
  const std::vector<uint32_t> lengths = RandomLengths(400);
  std::set<std::vector<uint32_t>> first_groups;
  std::set<std::vector<uint32_t>> longest_groups;
  for (uint64_t epoch = 0; epoch < 4; ++epoch) {
    const std::vector<uint32_t> order = Shuffle(lengths, 0, 8, epoch);
    EXPECT_EQ(order, Shuffle(lengths, 0, 8, epoch));
    first_groups.insert(Sorted({order.begin(), order.begin() + 8}));
    std::vector<uint32_t> longest;
    for (size_t begin = 0; begin + 8 <= order.size(); begin += 8) {
      const auto at = order.begin() + static_cast<int64_t>(begin);
      if (longest.empty() || lengths[*at] > lengths[longest[0]]) longest = {at, at + 8};
    }
    longest_groups.insert(Sorted(longest));
  }
  EXPECT_EQ(first_groups.size(), 4U);
  EXPECT_EQ(longest_groups.size(), 4U);
}

}  // namespace
}  // namespace crema
