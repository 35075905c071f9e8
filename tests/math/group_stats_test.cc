// Sums over strided groups against a plain loop.
#include "math/group_stats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace crema {
namespace {

const std::vector<GroupLayout> kLayouts = {
    {7, 1, 1, 45},   // rows
    {1, 5, 6, 33},   // channels with pixels
    {1, 9, 130, 1},  // columns
    {3, 4, 70, 1},   // pixels over channels
    {1, 1, 1, 50},  {2, 3, 1, 1}, {0, 3, 4, 5}, {3, 0, 2, 1}, {2, 2, 3, 0},
};

std::vector<float> DrawWave(int64_t count, int seed) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = std::sin(static_cast<float>(i) * 1.7F + static_cast<float>(seed)) + 100;
  }
  return values;
}

// Calls body(element, group).
template <typename Body>
void ForEach(const GroupLayout& g, Body&& body) {
  size_t at = 0;
  for (int64_t o = 0; o < g.outer; ++o) {
    for (int64_t r = 0; r < g.runs; ++r) {
      for (int64_t i = 0; i < g.inner; ++i) {
        for (int64_t k = 0; k < g.run; ++k) body(at++, static_cast<size_t>(o * g.inner + i));
      }
    }
  }
}

TEST(GroupStats, MomentsOfAllLayouts) {
  for (const GroupLayout& g : kLayouts) {
    const std::vector<float> x = DrawWave(g.Count(), 1);
    const auto groups = static_cast<size_t>(g.Groups());
    std::vector<double> mean(groups), variance(groups), want_mean(groups), want_variance(groups);
    GroupMoments(3, g, x.data(), mean.data(), variance.data());
    const auto size = static_cast<double>(g.GroupSize());
    ForEach(g, [&](size_t e, size_t i) { want_mean[i] += static_cast<double>(x[e]) / size; });
    ForEach(g, [&](size_t e, size_t i) {
      want_variance[i] += std::pow(static_cast<double>(x[e]) - want_mean[i], 2) / size;
    });
    for (size_t i = 0; i < groups; ++i) {
      EXPECT_NEAR(mean[i], want_mean[i], 1e-9);
      EXPECT_NEAR(variance[i], want_variance[i], 1e-9);
    }
  }
}

TEST(GroupStats, DotsAndSquares) {
  for (const GroupLayout& g : kLayouts) {
    const std::vector<float> a = DrawWave(g.Count(), 1);
    const std::vector<float> b = DrawWave(g.Count(), 2);
    const auto groups = static_cast<size_t>(g.Groups());
    std::vector<double> dots(groups), squares(groups), want_dots(groups), want_squares(groups);
    GroupDots(2, g, a.data(), b.data(), dots.data());
    GroupSquares(2, g, a.data(), nullptr, squares.data());
    ForEach(g, [&](size_t e, size_t i) {
      want_dots[i] += static_cast<double>(a[e]) * static_cast<double>(b[e]);
      want_squares[i] += static_cast<double>(a[e]) * static_cast<double>(a[e]);
    });
    for (size_t i = 0; i < groups; ++i) {
      EXPECT_NEAR(dots[i], want_dots[i], 1e-6);
      EXPECT_NEAR(squares[i], want_squares[i], 1e-6);
    }
  }
}

TEST(GroupStats, NormalizeAndCombine) {
  for (const GroupLayout& g : kLayouts) {
    const std::vector<float> x = DrawWave(g.Count(), 1);
    const std::vector<float> z = DrawWave(g.Count(), 2);
    const auto groups = static_cast<size_t>(g.Groups());
    std::vector<double> a(groups), b(groups), c(groups);
    for (size_t i = 0; i < groups; ++i) {
      a[i] = 1 + static_cast<double>(i) / 8;
      b[i] = 2 - static_cast<double>(i) / 16;
      c[i] = static_cast<double>(i) / 4;
    }
    std::vector<float> standard(x.size()), combined(x.size()), plain = x;
    GroupNormalize(2, g, x.data(), c.data(), a.data(), b.data(), standard.data());
    GroupCombine(2, g, a.data(), x.data(), b.data(), z.data(), c.data(), combined.data());
    GroupNormalize<float>(1, g, plain.data(), nullptr, nullptr, nullptr, plain.data());
    EXPECT_EQ(plain, x);
    ForEach(g, [&](size_t e, size_t i) {
      const auto v = static_cast<double>(x[e]);
      EXPECT_NEAR(standard[e], (v - c[i]) * a[i] + b[i], 1e-2);
      EXPECT_NEAR(combined[e], a[i] * v + b[i] * static_cast<double>(z[e]) + c[i], 1e-2);
    });
  }
}

TEST(GroupStats, SameBitsOnAnyNumberOfThreads) {
  const GroupLayout g{2, 40, 30, 41};
  const std::vector<float> x = DrawWave(g.Count(), 3);
  std::vector<double> one(60), four(60), squares_one(60), squares_four(60);
  GroupMoments(1, g, x.data(), one.data(), squares_one.data());
  GroupMoments(4, g, x.data(), four.data(), squares_four.data());
  EXPECT_EQ(one, four);
  EXPECT_EQ(squares_one, squares_four);
}

// One pass with sums of squares would give a variance of 0, or below.
TEST(GroupStats, SmallVarianceAroundALargeMean) {
  const GroupLayout g{1, 1, 1, 1000};
  std::vector<double> x(1000), mean(1), variance(1);
  for (size_t i = 0; i < x.size(); ++i) x[i] = 1e9 + (i % 2 == 0 ? 1e-3 : -1e-3);
  GroupMoments(1, g, x.data(), mean.data(), variance.data());
  EXPECT_NEAR(variance[0], 1e-6, 1e-9);
}

}  // namespace
}  // namespace crema
