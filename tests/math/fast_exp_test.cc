#include "math/fast_exp.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "math/softmax.h"

namespace crema {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kUnit = 0x1p-23F;  // a unit in the last place of 1

// The largest relative error of f over many numbers in [low, high).
template <typename Fast, typename Exact>
double WorstError(double low, double high, Fast&& fast, Exact&& exact) {
  constexpr int kSteps = 400000;
  double worst = 0;
  for (int i = 0; i < kSteps; ++i) {
    const auto x = static_cast<float>(low + (high - low) * i / kSteps);
    const double expected = exact(static_cast<double>(x));
    if (expected == 0) continue;
    worst = std::max(worst, std::abs(fast(x) - expected) / std::abs(expected));
  }
  return worst;
}

TEST(FastExp, IsWithinTwoUnitsInTheLastPlace) {
  const auto fast = [](float x) { return FastExp(x); };
  const auto exact = [](double x) { return std::exp(x); };
  EXPECT_LE(WorstError(-86.5, 88.7, fast, exact), 2 * kUnit);
  EXPECT_LE(WorstError(-1, 1, fast, exact), 2 * kUnit);
}

TEST(FastExp, EndsAsExpDoes) {
  EXPECT_EQ(FastExp(0.0F), 1.0F);
  EXPECT_EQ(FastExp(-kInfinity), 0.0F);
  EXPECT_EQ(FastExp(-1000.0F), 0.0F);
  EXPECT_EQ(FastExp(kInfinity), kInfinity);
  EXPECT_EQ(FastExp(1000.0F), kInfinity);
  EXPECT_TRUE(std::isnan(FastExp(std::numeric_limits<float>::quiet_NaN())));
}

TEST(FastTanh, IsWithinFourUnitsInTheLastPlace) {
  const auto fast = [](float x) { return FastTanh(x); };
  const auto exact = [](double x) { return std::tanh(x); };
  EXPECT_LE(WorstError(-12, 12, fast, exact), 4 * kUnit);
  EXPECT_LE(WorstError(-0.3, 0.3, fast, exact), 4 * kUnit);
  EXPECT_EQ(FastTanh(kInfinity), 1.0F);
  EXPECT_EQ(FastTanh(-kInfinity), -1.0F);
  EXPECT_EQ(FastTanh(0.0F), 0.0F);
  EXPECT_TRUE(std::isnan(FastTanh(std::numeric_limits<float>::quiet_NaN())));
}

TEST(FastErfc, LosesWhatItsSquareLoses) {
  const auto fast = [](float x) { return FastErfc(x); };
  const auto exact = [](double x) { return std::erfc(x); };
  EXPECT_LE(WorstError(-10, 1, fast, exact), 6 * kUnit);
  EXPECT_LE(WorstError(1, 3, fast, exact), 12 * kUnit);
  EXPECT_LE(WorstError(3, 9, fast, exact), 40 * kUnit);
  EXPECT_EQ(FastErfc(kInfinity), 0.0F);
  EXPECT_EQ(FastErfc(-kInfinity), 2.0F);
  EXPECT_TRUE(std::isnan(FastErfc(std::numeric_limits<float>::quiet_NaN())));
}

TEST(FastSigmoid, IsWithinFourUnitsInTheLastPlace) {
  const auto fast = [](float x) { return FastSigmoid(x); };
  const auto exact = [](double x) { return 1 / (1 + std::exp(-x)); };
  EXPECT_LE(WorstError(-86, 40, fast, exact), 4 * kUnit);
  EXPECT_EQ(FastSigmoid(-kInfinity), 0.0F);
  EXPECT_EQ(FastSigmoid(kInfinity), 1.0F);
}

// Rows of whole lines of lanes, of less, and of both; one NaN spoils its row and no other.
TEST(Softmax, MasksAndBrokenNumbersStayInTheirRow) {
  for (const int64_t classes : {3, 16, 21, 64}) {
    const SoftmaxSize sizes{3, classes, 1};
    const auto count = static_cast<size_t>(classes);
    std::vector<float> x(3 * count, 0.5F), y(3 * count, -1);
    for (size_t c = 1; c < count; ++c) x[c] = -kInfinity;
    x[count + count - 1] = std::numeric_limits<float>::quiet_NaN();
    SoftmaxForward(1, sizes, x.data(), y.data());
    EXPECT_EQ(y[0], 1.0F);
    EXPECT_EQ(*std::max_element(y.begin() + 1, y.begin() + classes), 0.0F);
    EXPECT_TRUE(std::all_of(y.begin() + classes, y.begin() + 2 * classes,
                            [](float v) { return std::isnan(v); }));
    for (size_t c = 2 * count; c < 3 * count; ++c) {
      EXPECT_FLOAT_EQ(y[c], 1.0F / static_cast<float>(classes));
    }
  }
}

}  // namespace
}  // namespace crema
