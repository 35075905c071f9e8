// InnerProduct in 16 bits with a number of outputs that is no multiple of 8.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "core/rng.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "gpu/session_values.h"
#include "runtime/session.h"
#include "support/gpu.h"
#include "support/net.h"

namespace crema {
namespace {

constexpr int64_t kRows = 256, kDepth = 4096, kColumns = 257, kPadded = 320;

std::string ProductNet(bool transpose) {
  return StrCat(R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 256 dim: 4096 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 256 } } }
layer { name: "scale" type: "Scale" bottom: "x" top: "scaled" }
layer { name: "ip" type: "InnerProduct" bottom: "scaled" top: "ip" inner_product_param {
  num_output: 257 weight_filler { type: "msra" } bias_filler { type: "gaussian" std: 0.1 }
  transpose: )",
                transpose ? "true" : "false", R"( } }
layer { name: "relu" type: "ReLU" bottom: "ip" top: "ip" }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
)");
}

struct ProductNumbers {
  double loss;
  std::vector<std::vector<float>> gradients;
  int64_t scratch;
};

ProductNumbers RunProduct(const std::string& text, Precision precision) {
  const PlanOptions options{.device = {DeviceType::kCuda, 0}, .precision = precision};
  const auto plan = test::PlanText(text, TRAIN, options, test::LayersOfStandIn());
  Session session(plan, Weights::Make(*plan, 3), test::GpuContext(3));
  const RandomStream stream(7, 1);
  std::vector<float> x(static_cast<size_t>(kRows * kDepth)), labels;
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(stream.Gaussian(i));
  for (int64_t i = 0; i < kRows; ++i) labels.push_back(static_cast<float>(i % kColumns));
  session.Write(session.MutableData("x"), x.data());
  session.Write(session.MutableData("label"), labels.data());
  ProductNumbers numbers{
      .loss = session.Forward(), .gradients = {}, .scratch = plan->scratch_bytes};
  test::AppendGradients(&session, &numbers.gradients);
  return numbers;
}

class PaddedProduct : public testing::TestWithParam<bool> {};

TEST_P(PaddedProduct, ComputesWhatTheProductComputes) {
  const std::string text = ProductNet(GetParam());
  const ProductNumbers single = RunProduct(text, FP32), half = RunProduct(text, BF16);
  // Weights, and the output or its gradient.
  EXPECT_GE(half.scratch, 2 * kPadded * (kDepth + kRows));
  EXPECT_NEAR(half.loss, single.loss, 0.01 * single.loss);
  ASSERT_EQ(single.gradients.size(), 3U);  // of the scale, the weights and the bias
  ASSERT_EQ(half.gradients.size(), 3U);
  for (size_t i = 0; i < 3; ++i) {
    ASSERT_EQ(single.gradients[i].size(), half.gradients[i].size());
    EXPECT_LT(test::Distance(single.gradients[i], half.gradients[i]), 0.02) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Weights, PaddedProduct, testing::Values(false, true),
                         [](const auto& of) { return of.param ? "transposed" : "plain"; });

}  // namespace
}  // namespace crema
