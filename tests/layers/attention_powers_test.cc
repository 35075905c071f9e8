#include "layers/attention/attention_powers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace crema {
namespace {

constexpr float kFloatInfinity = std::numeric_limits<float>::infinity();

// Rows of all lengths around whole lines of a vector register.
TEST(AttentionPowers, TimesFactorsAreTheSoftmax) {
  for (int keys = 1; keys <= 70; ++keys) {
    std::vector<float> p, factors(2);
    for (int i = 0; i < 2 * keys; ++i) p.push_back(static_cast<float>(20 * std::sin(1.3 * i)));
    const std::vector<float> x = p;
    AttentionPowers(0, 2, keys, false, {}, p.data(), factors.data());
    for (int q = 0; q < 2; ++q) {
      double sum = 0;
      const auto at = [&](int k) {
        return static_cast<size_t>(q) * static_cast<size_t>(keys) + static_cast<size_t>(k);
      };
      for (int k = 0; k < keys; ++k) sum += std::exp(double{x[at(k)]});
      for (int k = 0; k < keys; ++k) {
        const double expected = std::exp(double{x[at(k)]}) / sum;
        const double got = double{p[at(k)]} * double{factors[static_cast<size_t>(q)]};
        // The arguments of exp are up to 40, so they are rounded by 2^-19; other values by units in
        // the last place.
        EXPECT_NEAR(got, expected, (0x1p-19 + 0x1p-21) * expected) << keys << " keys, key " << k;
      }
    }
  }
}

TEST(AttentionPowers, QueriesSeeNoLaterKeysAndNoMaskedOnes) {
  std::vector<float> p(12, 1), factors(3);
  const std::vector<float> mask{0, -kFloatInfinity, 0, 0};
  AttentionPowers(1, 3, 4, true, {.data = mask.data(), .key_step = 1}, p.data(), factors.data());
  EXPECT_EQ(p, (std::vector<float>{1, 0, 0, 0, 1, 0, 1, 0, 1, 0, 1, 1}));
  EXPECT_EQ(factors, (std::vector<float>{1, 0.5F, 1 / 3.0F}));
}

TEST(AttentionPowers, AQueryThatSeesNothingGetsZeros) {
  std::vector<float> p{1, 2}, factors(1);
  const float hide = -kFloatInfinity;
  AttentionPowers(0, 1, 2, false, {.data = &hide}, p.data(), factors.data());
  EXPECT_EQ(p, (std::vector<float>{0, 0}));
  EXPECT_EQ(factors, (std::vector<float>{0}));
}

TEST(AttentionPowers, ShowNaN) {
  for (const float other : {1.0F, -kFloatInfinity, NAN}) {
    std::vector<float> p{other, NAN}, factors(1);
    AttentionPowers(0, 1, 2, false, {}, p.data(), factors.data());
    EXPECT_TRUE(std::isnan(factors[0])) << other;
  }
}

TEST(AttentionScoreGradients, AreThoseOfTheSoftmax) {
  for (int keys = 1; keys <= 40; ++keys) {
    std::vector<float> p, dp;
    for (int k = 0; k < keys; ++k) {
      p.push_back(2 * static_cast<float>(1 + k) / static_cast<float>(keys * (keys + 1)));
      dp.push_back(static_cast<float>(std::cos(k)));
    }
    double sum = 0;
    for (size_t k = 0; k < p.size(); ++k) sum += double{p[k]} * double{dp[k]};
    const std::vector<float> before = dp;
    AttentionScoreGradients(1, keys, p.data(), dp.data());
    for (size_t k = 0; k < p.size(); ++k) {
      EXPECT_NEAR(dp[k], double{p[k]} * (double{before[k]} - sum), 1e-7) << keys << " keys";
    }
  }
}

TEST(AttentionScoreGradients, WhatIsNotSeenHasNone) {
  const std::vector<float> p{0, 0, 1};
  std::vector<float> dp{kFloatInfinity, 3, 2};
  AttentionScoreGradients(1, 3, p.data(), dp.data());
  EXPECT_EQ(dp[0], 0);
  EXPECT_EQ(dp[1], 0);
}

}  // namespace
}  // namespace crema
