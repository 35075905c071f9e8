// Teams on the CPU, which are one thread.
#include "math/cuda/team.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace crema {
namespace {

int64_t ArgMax(const std::vector<float>& values) {
  return Team(Team::kThreads).ArgMax(static_cast<int64_t>(values.size()), [&](int64_t i) {
    return values[static_cast<size_t>(i)];
  });
}

TEST(Team, ArgMaxIsTheFirstOfTheLargest) {
  EXPECT_EQ(ArgMax({}), -1);
  EXPECT_EQ(ArgMax({2, 7, 7, 1}), 1);
  std::vector<float> many(1000, 1);
  many[300] = many[556] = many[999] = 2;  // 300 and 556 are of one thread
  EXPECT_EQ(ArgMax(many), 300);
  EXPECT_EQ(ArgMax({-std::numeric_limits<float>::infinity()}), 0);
}

TEST(Team, ArgMaxIsNeverNaN) {
  const float nan = std::nanf("");
  EXPECT_EQ(ArgMax({1, nan, 0}), 0);
  EXPECT_EQ(ArgMax({nan, 1, 3}), 2);
  EXPECT_EQ(ArgMax({nan, nan}), -1);
  std::vector<float> many(600, nan);
  many[511] = 4;
  EXPECT_EQ(ArgMax(many), 511);
}

TEST(Team, SumsAndMaximaTakeEachElementOnce) {
  for (int64_t count : {0, 1, 31, 32, 255, 256, 257, 1000}) {
    EXPECT_EQ(Team(Team::kThreads).Sum(count, [](int64_t i) { return i + 1; }),
              count * (count + 1) / 2);
    EXPECT_EQ(
        Team(Team::kThreads).Max(count, -5.0F, [](int64_t i) { return static_cast<float>(i); }),
        count == 0 ? -5.0F : static_cast<float>(count - 1));
    std::vector<int> calls(static_cast<size_t>(count));
    Team(Team::kThreads).For(count, [&](int64_t i) { ++calls[static_cast<size_t>(i)]; });
    EXPECT_EQ(calls, std::vector<int>(static_cast<size_t>(count), 1));
  }
}

}  // namespace
}  // namespace crema
