#include "math/lrn.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/rng.h"

namespace crema {
namespace {

std::vector<double> Draw(const LrnShape& shape, uint64_t number) {
  const RandomStream stream(8, number);
  std::vector<double> x(static_cast<size_t>(shape.channels * shape.Plane()));
  for (size_t i = 0; i < x.size(); ++i) x[i] = 4 * stream.Uniform(i) - 2;
  return x;
}

// Straight from the definition.
std::vector<double> Naive(const LrnShape& s, const LrnParam& p, bool within,
                          const std::vector<double>& x) {
  std::vector<double> y(x.size());
  const int64_t half = (p.size - 1) / 2;
  for (int64_t c = 0; c < s.channels; ++c) {
    for (int64_t i = 0; i < s.Plane(); ++i) {
      double sum = 0;
      for (int64_t other = 0; other < s.channels; ++other) {
        for (int64_t j = 0; j < s.Plane(); ++j) {
          const bool near = within ? c == other && std::abs(i / s.width - j / s.width) <= half &&
                                         std::abs(i % s.width - j % s.width) <= half
                                   : i == j && std::abs(c - other) <= half;
          const double value = x[static_cast<size_t>(other * s.Plane() + j)];
          if (near) sum += value * value;
        }
      }
      const auto size = static_cast<double>(p.size);
      const double scale = within ? 1 + p.alpha / (size * size) * sum : p.k + p.alpha / size * sum;
      const auto at = static_cast<size_t>(c * s.Plane() + i);
      y[at] = x[at] * std::pow(scale, -p.beta);
    }
  }
  return y;
}

template <typename T>
void CheckForward(const LrnShape& s, const LrnParam& p, uint64_t number, double tolerance) {
  const std::vector<double> values = Draw(s, number);
  const std::vector<T> x(values.begin(), values.end());
  std::vector<T> scale(x.size()), y(x.size());
  std::vector<double> across(static_cast<size_t>(LrnAcrossScratch(s)), std::nan(""));
  std::vector<double> within(static_cast<size_t>(LrnWithinScratch(s)), std::nan(""));
  LrnAcross(s, p, x.data(), scale.data(), y.data(), across.data());
  const std::vector<double> rounded(x.begin(), x.end());
  std::vector<double> expected = Naive(s, p, false, rounded);
  for (size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], expected[i], tolerance) << "across " << i;
  LrnWithin(s, p, x.data(), scale.data(), y.data(), within.data());
  expected = Naive(s, p, true, rounded);
  for (size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], expected[i], tolerance) << "within " << i;
}

TEST(Lrn, AgreesWithItsDefinition) {
  for (uint64_t number = 0; number < 60; ++number) {
    const RandomStream stream(9, number);
    const LrnShape shape{1 + stream.Below(0, 9), 1 + stream.Below(1, 6), 1 + stream.Below(2, 7)};
    const double betas[] = {0.75, 0.5, 1, 0.6};
    const LrnParam param{.size = 1 + 2 * static_cast<int64_t>(stream.Below(3, 5)),
                         .alpha = 0.1 + stream.Uniform(4),
                         .beta = betas[stream.Below(5, 4)],
                         .k = 0.5 + stream.Uniform(6)};
    ASSERT_NO_FATAL_FAILURE(CheckForward<float>(shape, param, number, 2e-6));
    ASSERT_NO_FATAL_FAILURE(CheckForward<double>(shape, param, number, 1e-13));
  }
}

TEST(Lrn, ALargeValueLeavesNoErrorWhenItLeavesTheWindow) {
  // Running sums in single precision would keep an error of about 1e9 * 1e-7 after channel 0.
  const LrnShape shape{8, 1, 1};
  const LrnParam param{.size = 3, .alpha = 3, .beta = 0.75, .k = 1};
  std::vector<float> x(8, 0.5F), scale(8), y(8);
  x[0] = 3e4F;
  std::vector<double> scratch(static_cast<size_t>(LrnAcrossScratch(shape)));
  LrnAcross(shape, param, x.data(), scale.data(), y.data(), scratch.data());
  for (size_t c = 2; c < 7; ++c) EXPECT_NEAR(scale[c], 1.75, 1e-6) << "channel " << c;
}

}  // namespace
}  // namespace crema
