// BatchNorm on a GPU, or on a stand-in, with the layers behind it in one: as each by itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "core/rng.h"
#include "core/strings.h"
#include "support/gpu.h"
#include "support/net.h"
#include "support/random_nets.h"
#include "support/solver_runs.h"

namespace crema {
namespace {

const std::string kScale = R"(layer { name: "s" type: "Scale" bottom: "bn" top: "s"
  scale_param { filler { type: "uniform" min: 0.5 max: 2 } } })";
const std::string kBiased = R"(layer { name: "s" type: "Scale" bottom: "bn" top: "s"
  scale_param { bias_term: true filler { type: "uniform" min: -2 max: 2 }
                bias_filler { type: "uniform" min: -1 max: 1 } } })";
const std::string kFrozen = R"(layer { name: "s" type: "Scale" bottom: "bn" top: "s"
  param { lr_mult: 0 } param { lr_mult: 1 }
  scale_param { bias_term: true filler { type: "uniform" min: 0.5 max: 2 } } })";

std::string Relu(const std::string& bottom, float slope = 0) {
  return StrCat("layer { name: 'r' type: 'ReLU' bottom: '", bottom,
                "' top: 'r' relu_param { negative_slope: ", slope, " } }\n");
}

std::string NetOf(const std::string& behind, const std::string& last, int64_t batch,
                  int64_t extent) {
  const std::string shape = StrCat("dim: ", batch, " dim: 5 dim: ", extent, " dim: ", extent + 1);
  return StrCat(
      "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { ", shape, " } } }\n",
      "layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'c' convolution_param { num_output: "
      "16 "
      "kernel_size: 1 weight_filler { type: 'msra' } bias_filler { type: 'constant' value: 3 } } "
      "}\n"
      "layer { name: 'bn' type: 'BatchNorm' bottom: 'c' top: 'bn' }\n",
      behind, "layer { name: 'd' type: 'Convolution' bottom: '", last,
      "' top: 'd' convolution_param { num_output: 4 kernel_size: 1 weight_filler { type: 'msra' } "
      "} "
      "}\nlayer { name: 'loss' type: 'Reduction' bottom: 'd' top: 'loss' loss_weight: 0.05 "
      "reduction_param { operation: SUMSQ } }\n");
}

struct Numbers {
  std::vector<double> losses;
  std::vector<std::vector<float>> outputs, gradients, weights;
};

std::vector<float> Values(const Session& session, const ConstTensorView& view) {
  std::vector<float> values(static_cast<size_t>(view.count()));
  session.Read(view, values.data());
  return values;
}

const PlannedLayer& Norm(const Plan& plan) {
  return *std::ranges::find_if(plan.layers, [](const auto& l) { return l.name() == "bn"; });
}

Numbers RunNet(const std::string& net, Phase phase, Precision precision, size_t absorbed) {
  PlanOptions options{.device = {DeviceType::kCuda, 0}, .precision = precision};
  options.backward = phase == TRAIN;
  options.passes.absorb = absorbed > 0;
  const auto plan = test::PlanText(net, phase, options);
  EXPECT_EQ(Norm(*plan).absorbs.size(), absorbed) << net;
  // Small blobs are not worth the conversions.
  if (precision != FP32 && Norm(*plan).info.outputs[0].shape.count() > 10000) {
    EXPECT_EQ(Norm(*plan).kernel->name, precision == BF16 ? "cuda bf16" : "cuda f16") << net;
  }
  const std::shared_ptr<Weights> weights = Weights::Make(*plan, 3);
  Session session(plan, weights, test::GpuContext(3));
  Numbers numbers;
  for (uint64_t pass = 0; pass < 2; ++pass) {
    const TensorView x = session.MutableData("x");
    const RandomStream stream(pass, 1);
    std::vector<float> drawn(static_cast<size_t>(x.count()));
    for (size_t i = 0; i < drawn.size(); ++i) drawn[i] = static_cast<float>(stream.Gaussian(i));
    session.Write(x, drawn.data());
    numbers.losses.push_back(session.Forward());
    if (phase == TEST) continue;
    session.ZeroLearnedGradients();
    session.Backward();
    for (size_t s = 0; s < plan->learned.size(); ++s) {
      const TensorView gradient = session.LearnedGradient(s);
      if (!gradient.empty()) numbers.gradients.push_back(Values(session, gradient));
    }
  }
  session.ReturnStatistics();
  numbers.weights = test::ValuesOf(*weights);
  return numbers;
}

double Norm2(const std::vector<float>& values) {
  double sum = 0;
  for (const float v : values) sum += double{v} * double{v};
  return std::sqrt(sum);
}

// Blobs of halves are rounded between layers that are apart, and not within those in one.
void ExpectClose(const std::vector<std::vector<float>>& a, const std::vector<std::vector<float>>& b,
                 double tolerance, const std::string& net) {
  ASSERT_EQ(a.size(), b.size()) << net;
  double whole = 0;
  for (const auto& values : a) whole = std::max(whole, Norm2(values));
  for (size_t k = 0; k < a.size(); ++k) {
    std::vector<float> apart = a[k];
    for (size_t i = 0; i < apart.size(); ++i) apart[i] -= b[k][i];
    // A bias in front of BatchNorm has a gradient of 0, which is rounding only.
    EXPECT_LE(Norm2(apart), tolerance * (Norm2(a[k]) + 0.02 * whole)) << k << ' ' << net;
  }
}

TEST(GpuFusedNorm, IsAsEachByItself) {
  const std::vector<std::pair<std::string, std::pair<std::string, size_t>>> behind{
      {kScale, {"s", 1}},
      {kBiased, {"s", 1}},
      {Relu("bn"), {"r", 1}},
      {kScale + Relu("s"), {"r", 2}},
      {kBiased + Relu("s"), {"r", 2}},
      {kBiased + Relu("s", 0.25F), {"r", 2}},
      {kFrozen + Relu("s"), {"r", 2}}};
  for (const auto& [layers, last] : behind) {
    for (const auto& [batch, extent] : {std::pair{3, 7}, {1, 1}, {2, 40}, {2, 90}}) {
      const std::string net = NetOf(layers, last.first, batch, extent);
      for (const Phase phase : {TRAIN, TEST}) {
        for (const Precision precision : {FP32, BF16, FP16}) {
          const double tolerance = precision == FP32 ? 1e-4 : precision == BF16 ? 0.04 : 0.005;
          const Numbers apart = RunNet(net, phase, precision, 0);
          const Numbers fused = RunNet(net, phase, precision, last.second);
          for (size_t i = 0; i < apart.losses.size(); ++i) {
            EXPECT_NEAR(fused.losses[i], apart.losses[i],
                        tolerance * (0.1 + std::abs(apart.losses[i])))
                << net;
          }
          ExpectClose(apart.gradients, fused.gradients, tolerance, net);
          ExpectClose(apart.weights, fused.weights, tolerance, net);
        }
      }
    }
  }
}

}  // namespace
}  // namespace crema
