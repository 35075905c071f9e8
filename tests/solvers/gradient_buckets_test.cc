#include "solvers/gradient_buckets.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/strings.h"
#include "support/net.h"

namespace crema::test {
namespace {

// Copies the values of each sum when it starts.
class StartedSums final : public Collective {
 public:
  void Sum(int, const ExecContext&, std::span<float>) override {}
  void CopyFromFirst(int, const ExecContext&, std::span<const TensorView>) override {}
  void StartSum(int, std::span<float> values) override {
    places.push_back(values);
    copies.emplace_back(values.begin(), values.end());
  }
  void FinishSums(int) override { ++finished; }
  void Abort() noexcept override {}

  std::vector<std::span<float>> places;
  std::vector<std::vector<float>> copies;
  int finished = 0;
};

// Branches, in-place layers, BatchNorm with Scale, and a layer that shares the weights of another.
constexpr const char* kBranches = R"(
layer { name: "data" type: "DummyData" top: "data" top: "label" dummy_data_param {
  shape { dim: 2 dim: 3 dim: 8 dim: 8 } shape { dim: 2 }
  data_filler { type: "gaussian" std: 1 } data_filler { type: "constant" value: 1 } } }
layer { name: "a" type: "Convolution" bottom: "data" top: "a" convolution_param {
  num_output: 4 kernel_size: 3 pad: 1 weight_filler { type: "xavier" } } }
layer { name: "norm" type: "BatchNorm" bottom: "a" top: "a" }
layer { name: "scale" type: "Scale" bottom: "a" top: "a" scale_param { bias_term: true } }
layer { name: "relu" type: "ReLU" bottom: "a" top: "a" }
layer { name: "b" type: "Convolution" bottom: "a" top: "b" param { name: "w" } param { name: "v" }
  convolution_param { num_output: 4 kernel_size: 1 weight_filler { type: "xavier" } } }
layer { name: "c" type: "Convolution" bottom: "b" top: "c" param { name: "w" } param { name: "v" }
  convolution_param { num_output: 4 kernel_size: 1 weight_filler { type: "xavier" } } }
layer { name: "sum" type: "Eltwise" bottom: "a" bottom: "c" top: "sum" }
layer { name: "both" type: "Concat" bottom: "sum" bottom: "b" top: "both" }
layer { name: "ip" type: "InnerProduct" bottom: "both" top: "ip" inner_product_param {
  num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "frozen" type: "InnerProduct" bottom: "ip" top: "out" param { lr_mult: 0 }
  param { lr_mult: 0 } inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "out" bottom: "label" top: "loss" }
)";

TEST(GradientBuckets, StartWhenTheirValuesAreComplete) {
  for (const size_t values : {1U, 100U, 1U << 20U}) {
    const std::shared_ptr<const Plan> plan = PlanText(kBranches);
    Session session(plan, Weights::Make(*plan, 1), ExecContext(2, 1));
    StartedSums sums;
    GradientBuckets buckets(&session, &sums, 0, values);
    for (int round = 1; round <= 2; ++round) {
      session.ZeroParameterGradients();
      session.Forward();
      buckets.Arm();
      session.Backward();
      const size_t early = sums.places.size();
      buckets.Finish();
      EXPECT_EQ(sums.finished, round);
      EXPECT_GE(early, values == 1 ? 5U : 0U);
      const std::span<float> all = session.ParameterGradientMemory();
      size_t end = all.size();
      for (size_t i = 0; i < sums.places.size(); ++i) {
        const std::span<float> place = sums.places[i];
        EXPECT_EQ(place.data() + place.size(), all.data() + end) << "no gap, no overlap";
        end -= place.size();
        EXPECT_EQ(sums.copies[i], std::vector<float>(place.begin(), place.end())) << i;
      }
      EXPECT_EQ(end, 0U);
      sums.places.clear();
      sums.copies.clear();
    }
    // Without Arm, a pass starts nothing.
    session.Forward();
    session.Backward();
    EXPECT_TRUE(sums.places.empty());
  }
}

// Sums start early, and few are left when the pass ends.
TEST(GradientBuckets, OfTheFirstAndTheLastLayersAreSmall) {
  std::string net = R"(layer { name: "data" type: "DummyData" top: "data" top: "label"
    dummy_data_param { shape { dim: 2 dim: 10 } shape { dim: 2 } } } )";
  std::string bottom = "data";
  for (int i = 0; i < 40; ++i) {
    net += StrCat("layer { name: 'ip", i, "' type: 'InnerProduct' bottom: '", bottom, "' top: 'ip",
                  i, "' inner_product_param { num_output: 10 bias_term: false } } ");
    bottom = StrCat("ip", i);
  }
  net += StrCat("layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: '", bottom,
                "' bottom: 'label' top: 'loss' }");
  const std::shared_ptr<const Plan> plan = PlanText(net.c_str());
  Session session(plan, Weights::Make(*plan, 1), ExecContext(1, 1));
  StartedSums sums;
  GradientBuckets buckets(&session, &sums, 0, 1200);  // a layer has 100, with padding 112
  buckets.Finish();
  ASSERT_GE(sums.places.size(), 4U);
  EXPECT_GE(sums.places.front().size(), 300U);
  EXPECT_LT(sums.places.front().size(), 500U);
  EXPECT_LE(sums.places.back().size(), 300U);
  EXPECT_GE(sums.places.back().size(), 100U);
  for (size_t i = 1; i + 2 < sums.places.size(); ++i) {
    EXPECT_GE(sums.places[i].size(), 1200U) << i;
    EXPECT_LT(sums.places[i].size(), 1400U) << i;
  }
}

}  // namespace
}  // namespace crema::test
