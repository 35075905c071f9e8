// Statistics of BatchNorm and BN: the stored values and their use.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "crema.pb.h"
#include "support/net.h"

namespace crema::test {
namespace {

// One layer over a blob of 2 x 2 x 2, in a session that may update its statistics.
class OneLayer {
 public:
  explicit OneLayer(const std::string& layer, Phase phase = TRAIN)
      : plan_(
            PlanText("layer { name: \"x\" type: \"Input\" top: \"x\" input_param { shape { dim: 2 "
                     "dim: 2 dim: 2 } } }\nlayer { name: \"n\" bottom: \"x\" top: \"y\" " +
                         layer + " }\n",
                     phase)),
        weights_(Weights::Make(*plan_, 1)),
        session_(plan_, weights_, ExecContext(1)) {}

  std::vector<float> Run(const std::vector<float>& x) {
    std::ranges::copy(x, session_.MutableData("x").data<float>());
    session_.Forward();
    return ValuesOf(session_.Data("y"));
  }
  std::vector<float> Blob(size_t i) const { return ValuesOf(weights_->blob(i)); }
  void Set(size_t i, const std::vector<float>& values) {
    std::ranges::copy(values, weights_->blob(i).data<float>());
  }
  size_t blobs() const { return weights_->size(); }

 private:
  std::shared_ptr<const Plan> plan_;
  std::shared_ptr<Weights> weights_;
  Session session_;
};

void ExpectFloatsNear(const std::vector<float>& got, const std::vector<double>& want,
                      double tolerance = 1e-5) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], tolerance) << i;
}

// Channel 0 holds 1, 2, 5, 8 (mean 4, variance 7.5, unbiased 10), channel 1 zeros.
const std::vector<float> kTwoChannels = {1, 2, 0, 0, 5, 8, 0, 0};
const double kStd = std::sqrt(7.5);

TEST(BatchNormTest, StoresUnnormalisedSums) {
  OneLayer net("type: \"BatchNorm\" batch_norm_param { moving_average_fraction: 0.5 eps: 0 }");
  net.Set(1, {0, 0});
  const std::vector<float> y = net.Run(kTwoChannels);
  ExpectFloatsNear({y[0], y[1], y[4], y[5]}, {-3 / kStd, -2 / kStd, 1 / kStd, 4 / kStd});
  ExpectFloatsNear(net.Blob(0), {4, 0});
  ExpectFloatsNear(net.Blob(1), {10, 0});
  ExpectFloatsNear(net.Blob(2), {1});
  net.Run(kTwoChannels);
  ExpectFloatsNear(net.Blob(0), {6, 0});
  ExpectFloatsNear(net.Blob(1), {15, 0});
  ExpectFloatsNear(net.Blob(2), {1.5});
}

TEST(BatchNormTest, UsesSumsDividedByTheFactorInTest) {
  OneLayer net("type: \"BatchNorm\" batch_norm_param { eps: 0 }", TEST);
  net.Set(0, {2, 4});
  net.Set(1, {8, 18});
  net.Set(2, {2});
  ExpectFloatsNear(net.Run(kTwoChannels), {0, 0.5, -2 / 3.0, -2 / 3.0, 2, 3.5, -2 / 3.0, -2 / 3.0});
  ExpectFloatsNear(net.Blob(0), {2, 4});
}

TEST(BatchNormTest, FactorZeroMeansMeanAndVarianceZero) {
  OneLayer net("type: \"BatchNorm\" batch_norm_param { eps: 0.25 }", TEST);
  net.Set(0, {5, 5});
  ExpectFloatsNear(net.Run(kTwoChannels), {2, 4, 0, 0, 10, 16, 0, 0});
}

TEST(BatchNormTest, ScaleBiasStoresAverages) {
  OneLayer net(
      "type: \"BatchNorm\" batch_norm_param { scale_bias: true moving_average_fraction: 0.75 }");
  ASSERT_EQ(net.blobs(), 5U);
  net.Set(3, {2, 1});
  net.Set(4, {1, 3});
  const std::vector<float> y = net.Run(kTwoChannels);
  EXPECT_NEAR(y[0], 1 - 2 * 3 / kStd, 1e-4);
  EXPECT_NEAR(y[2], 3, 1e-4);
  ExpectFloatsNear(net.Blob(0), {4, 0});  // the first pass replaces
  ExpectFloatsNear(net.Blob(1), {10, 0});
  ExpectFloatsNear(net.Blob(2), {1});
  net.Run({0, 0, 0, 0, 0, 0, 0, 0});
  ExpectFloatsNear(net.Blob(0), {3, 0});
  ExpectFloatsNear(net.Blob(1), {7.5, 0});
  ExpectFloatsNear(net.Blob(2), {1});
}

TEST(BatchNormTest, OneElementAChannelIsStoredAsItIs) {
  const auto plan = PlanText(
      "layer { name: \"x\" type: \"Input\" top: \"x\" input_param { shape { dim: 1 dim: 2 } } }\n"
      "layer { name: \"n\" type: \"BatchNorm\" bottom: \"x\" top: \"y\" }\n");
  const auto weights = Weights::Make(*plan, 1);
  Session session(plan, weights, ExecContext(1));
  FillInput(&session, "x", 1);
  session.Forward();
  ExpectFloatsNear(ValuesOf(session.Data("y")), {0, 0});
  ExpectFloatsNear(ValuesOf(std::as_const(*weights).blob(1)), {0, 0});
}

TEST(BNTest, SegNetInferenceIsScaleAndShift) {
  OneLayer net("type: \"BN\" bn_param { bn_mode: INFERENCE }");
  ASSERT_EQ(net.blobs(), 2U);
  net.Set(0, {2, 3});
  net.Set(1, {1, -1});
  ExpectFloatsNear(net.Run(kTwoChannels), {3, 5, -1, -1, 11, 17, -1, -1});
}

TEST(BNTest, PspNetAveragesByDecayAndUsesThemInTestOnly) {
  const std::string layer =
      "type: \"BN\" bn_param { scale_filler { value: 1 } moving_average: true decay: 0.25 "
      "var_eps: 0 }";
  OneLayer train(layer);
  ASSERT_EQ(train.blobs(), 4U);
  train.Set(2, {8, 0});
  train.Set(3, {1.5, 0});
  const std::vector<float> y = train.Run(kTwoChannels);
  EXPECT_NEAR(y[5], 4 / kStd, 1e-5);
  ExpectFloatsNear(train.Blob(2), {7, 0});
  ExpectFloatsNear(train.Blob(3), {3, 0});  // the variance that divides by N
  OneLayer test(layer, TEST);
  test.Set(2, {1, 0});
  test.Set(3, {4, 1});
  ExpectFloatsNear(test.Run(kTwoChannels), {0, 0.5, 0, 0, 2, 3.5, 0, 0});
}

TEST(BNTest, FrozenUsesStoredStatisticsInTrainAndKeepsThem) {
  OneLayer net("type: \"BN\" bn_param { slope_filler { value: 1 } frozen: true eps: 0 }");
  ExpectFloatsNear(net.Blob(3), {1, 1});
  ExpectFloatsNear(net.Run(kTwoChannels), {1, 2, 0, 0, 5, 8, 0, 0});
  ExpectFloatsNear(net.Blob(2), {0, 0});
  OneLayer thawed("type: \"BN\" bn_param { slope_filler { value: 1 } momentum: 0.75 eps: 0.01 }");
  thawed.Run(kTwoChannels);
  ExpectFloatsNear(thawed.Blob(2), {1, 0});
  ExpectFloatsNear(thawed.Blob(3), {1.875, 0});
}

}  // namespace
}  // namespace crema::test
