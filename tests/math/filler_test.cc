#include "math/filler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "crema.pb.h"

namespace crema {
namespace {

FillerParameter FillerOfType(const std::string& type) {
  FillerParameter filler;
  filler.set_type(type);
  return filler;
}

std::vector<double> Filled(const FillerParameter& filler, const Shape& shape, int threads = 1,
                           uint64_t seed = 11) {
  Tensor tensor(shape, DType::kF64);
  Fill(filler, shape, RandomStream(seed, 5), tensor.view(), threads);
  const auto values = tensor.view().span<double>();
  return {values.begin(), values.end()};
}

double Mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double Deviation(const std::vector<double>& values) {
  const double mean = Mean(values);
  double sum = 0;
  for (double v : values) sum += (v - mean) * (v - mean);
  return std::sqrt(sum / static_cast<double>(values.size()));
}

std::string MessageOf(const FillerParameter& filler, const Shape& shape, Where where = {}) {
  try {
    ValidateFiller(filler, shape, where);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.problems().front().where.field + "|" + error.what();
  }
  return "nothing was thrown";
}

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// 100,000 values: the mean of n draws is off by more than 4 deviations / sqrt(n) once in 16,000.
const Shape kLarge{100, 50, 4, 5};

TEST(FillerTest, ConstantIsZeroByDefault) {
  EXPECT_EQ(Filled({}, {2, 2}), std::vector<double>(4, 0.0));
  FillerParameter filler;
  filler.set_value(2.5F);
  EXPECT_EQ(Filled(filler, {3}), std::vector<double>(3, 2.5));
}

TEST(FillerTest, UniformCoversItsRange) {
  FillerParameter filler = FillerOfType("uniform");
  filler.set_min(-2);
  filler.set_max(6);
  const std::vector<double> values = Filled(filler, kLarge);
  const auto [low, high] = std::ranges::minmax(values);
  EXPECT_GE(low, -2);
  EXPECT_LT(low, -1.99);
  EXPECT_LE(high, 6);
  EXPECT_GT(high, 5.99);
  EXPECT_NEAR(Mean(values), 2, 0.03);
  EXPECT_NEAR(Deviation(values), 8 / std::sqrt(12.0), 0.02);
}

TEST(FillerTest, GaussianHasMeanAndDeviation) {
  FillerParameter filler = FillerOfType("gaussian");
  filler.set_mean(3);
  filler.set_std(0.5F);
  const std::vector<double> values = Filled(filler, kLarge);
  EXPECT_NEAR(Mean(values), 3, 0.0065);
  EXPECT_NEAR(Deviation(values), 0.5, 0.005);
  const auto far = std::ranges::count_if(values, [](double v) { return std::abs(v - 3) > 1; });
  EXPECT_NEAR(static_cast<double>(far) / 100000, 0.0455, 0.003);
}

TEST(FillerTest, SparseGaussianKeepsTheAskedShare) {
  FillerParameter filler = FillerOfType("gaussian");
  filler.set_sparse(15);
  const std::vector<double> values = Filled(filler, kLarge);
  const auto kept = std::ranges::count_if(values, [](double v) { return v != 0; });
  EXPECT_NEAR(static_cast<double>(kept) / 100000, 0.15, 0.005);
  filler.set_sparse(0);
  EXPECT_EQ(Filled(filler, {4, 3}), std::vector<double>(12, 0.0));
}

TEST(FillerTest, PositiveUnitballRowsSumToOne) {
  const std::vector<double> values = Filled(FillerOfType("positive_unitball"), {3, 4, 5});
  for (size_t row = 0; row < 3; ++row) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(row * 20);
    EXPECT_NEAR(std::accumulate(begin, begin + 20, 0.0), 1, 1e-12);
    EXPECT_TRUE(std::all_of(begin, begin + 20, [](double v) { return v >= 0; }));
  }
}

TEST(FillerTest, XavierBoundFollowsTheFan) {
  FillerParameter filler = FillerOfType("xavier");
  const auto bound = [&] {
    const auto [low, high] = std::ranges::minmax(Filled(filler, kLarge));
    EXPECT_NEAR(-low, high, 0.01 * high);
    return high;
  };
  // fan in 50*4*5 = 1000, fan out 100*4*5 = 2000
  EXPECT_NEAR(bound(), std::sqrt(3.0 / 1000), 1e-4);
  filler.set_variance_norm(FillerParameter::FAN_OUT);
  EXPECT_NEAR(bound(), std::sqrt(3.0 / 2000), 1e-4);
  filler.set_variance_norm(FillerParameter::AVERAGE);
  EXPECT_NEAR(bound(), std::sqrt(3.0 / 1500), 1e-4);
}

TEST(FillerTest, MsraDeviationFollowsTheFan) {
  FillerParameter filler = FillerOfType("msra");
  EXPECT_NEAR(Deviation(Filled(filler, kLarge)), std::sqrt(2.0 / 1000), 5e-4);
  filler.set_variance_norm(FillerParameter::FAN_OUT);
  EXPECT_NEAR(Deviation(Filled(filler, kLarge)), std::sqrt(2.0 / 2000), 4e-4);
}

TEST(FillerTest, FanOutOfOneAxisIsTheCount) {
  FillerParameter filler = FillerOfType("xavier");
  filler.set_variance_norm(FillerParameter::FAN_OUT);
  const std::vector<double> values = Filled(filler, {30000});
  EXPECT_NEAR(*std::ranges::max_element(values), std::sqrt(3.0 / 30000), 1e-5);
}

TEST(FillerTest, BilinearKernelOfSideFour) {
  const std::vector<double> values = Filled(FillerOfType("bilinear"), {2, 1, 4, 4});
  const std::vector<double> hat = {0.25, 0.75, 0.75, 0.25};
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(values[i], hat[i % 4] * hat[i / 4 % 4], 1e-12) << i;
  }
}

TEST(FillerTest, BilinearKernelOfSideThree) {
  const std::vector<double> values = Filled(FillerOfType("bilinear"), {1, 1, 3, 3});
  EXPECT_NEAR(values[4], 1, 1e-12);
  EXPECT_NEAR(values[0], 0.25, 1e-12);
  EXPECT_NEAR(values[1], 0.5, 1e-12);
}

TEST(FillerTest, NumberOfThreadsMakesNoDifference) {
  for (const char* type : {"uniform", "gaussian", "positive_unitball", "xavier", "msra"}) {
    const Shape shape{101, 97, 3};  // pieces do not begin at multiples of 4
    EXPECT_EQ(Filled(FillerOfType(type), shape, 1), Filled(FillerOfType(type), shape, 5)) << type;
  }
}

TEST(FillerTest, FloatsAreRoundedDoubles) {
  const Shape shape{50, 3};
  Tensor narrow(shape, DType::kF32);
  Fill(FillerOfType("msra"), shape, RandomStream(11, 5), narrow.view());
  const std::vector<double> wide = Filled(FillerOfType("msra"), shape);
  for (size_t i = 0; i < wide.size(); ++i) {
    EXPECT_EQ(narrow.view().data<float>()[i], static_cast<float>(wide[i]));
  }
}

TEST(FillerTest, SeedsGiveDifferentValues) {
  EXPECT_NE(Filled(FillerOfType("xavier"), {4, 5}, 1, 1),
            Filled(FillerOfType("xavier"), {4, 5}, 1, 2));
}

TEST(FillerTest, EmptyAndScalarBlobsAreFine) {
  for (const char* type :
       {"constant", "uniform", "gaussian", "positive_unitball", "xavier", "msra"}) {
    EXPECT_TRUE(Filled(FillerOfType(type), {0, 3}).empty()) << type;
    EXPECT_TRUE(std::isfinite(Filled(FillerOfType(type), Shape()).front())) << type;
  }
}

TEST(FillerTest, UnknownTypeListsTheKnownOnes) {
  Where where;
  where.field = "inner_product_param.weight_filler";
  const std::string text = MessageOf(FillerOfType("xaiver"), {2}, where);
  EXPECT_TRUE(Has(text, "inner_product_param.weight_filler.type|")) << text;
  EXPECT_TRUE(Has(text, "did you mean 'xavier'?")) << text;
  EXPECT_TRUE(Has(text, "constant, uniform, gaussian, positive_unitball, xavier, msra, bilinear"));
}

TEST(FillerTest, RefusesSparseElsewhereOrOutOfRange) {
  FillerParameter filler = FillerOfType("xavier");
  filler.set_sparse(3);
  EXPECT_TRUE(Has(MessageOf(filler, {4, 4}), "sparse works with the gaussian filler only"));
  filler.set_type("gaussian");
  EXPECT_EQ(MessageOf(filler, {4, 4}), "nothing was thrown");
  EXPECT_TRUE(Has(MessageOf(filler, {2, 4}), "expected -1 (keep all) or 0 to 2"));
  filler.set_sparse(-2);
  EXPECT_TRUE(Has(MessageOf(filler, {4, 4}), "sparse is -2"));
}

TEST(FillerTest, RefusesRangesThatAreNone) {
  FillerParameter filler = FillerOfType("uniform");
  filler.set_min(2);
  EXPECT_TRUE(Has(MessageOf(filler, {2}), "min is 2 and max is 1"));
  filler.set_min(std::numeric_limits<float>::quiet_NaN());
  EXPECT_TRUE(Has(MessageOf(filler, {2}), "min is nan"));
  FillerParameter gaussian = FillerOfType("gaussian");
  gaussian.set_std(-1);
  EXPECT_TRUE(Has(MessageOf(gaussian, {2}), "std is -1"));
}

TEST(FillerTest, BilinearNeedsSquareKernels) {
  EXPECT_TRUE(Has(MessageOf(FillerOfType("bilinear"), {2, 1, 3, 4}), "2x1x3x4"));
  EXPECT_TRUE(Has(MessageOf(FillerOfType("bilinear"), {4, 4}), "4 axes"));
}

}  // namespace
}  // namespace crema
