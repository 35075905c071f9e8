// Swish: y = x * sigmoid(beta * x), element by element. SiLU is Swish with beta 1.
// dx = dy * (s + beta * x * s * (1 - s)), s = sigmoid(beta * x). Two x have the same y, so backward
// reads x.
#include <cmath>

#include "layers/activation/elementwise.h"
#include "layers/layer_number.h"
#include "math/fast_exp.h"

namespace crema {
namespace {

struct SwishFormula {
  static constexpr int64_t kForwardGrain = kCostlyGrain;
  static constexpr int64_t kBackwardGrain = kCostlyGrain;

  explicit SwishFormula(const Layer& layer)
      : beta(FiniteNumber(layer, layer.param().swish_param().beta(), "swish_param.beta")) {}
  bool reads_output() const { return false; }

  template <typename T>
  T Value(T x) const {
    return x / (T(1) + FastExp(-T(beta) * x));
  }
  template <typename T>
  T Gradient(T x, T dy) const {
    const T s = T(1) / (T(1) + FastExp(-T(beta) * x));
    return dy * (s + T(beta) * x * s * (T(1) - s));
  }

  float beta = 1;

 protected:
  SwishFormula() = default;
};

struct SiluFormula : SwishFormula {
  explicit SiluFormula(const Layer&) {}
};

std::vector<LayerSample> SharedSamples() {
  return {
      {.name = "plain", .prototxt = "", .inputs = {{.shape = {2, 3, 4, 5}, .low = -4, .high = 4}}},
      {.name = "large", .prototxt = "", .inputs = {{.shape = {3, 6007}}}},
      {.name = "scalar", .prototxt = "", .inputs = {{.shape = {}}}},
      {.name = "empty_batch", .prototxt = "", .inputs = {{.shape = {0, 3}}}},
  };
}

}  // namespace

void RegisterSwish(Registry& registry) {
  auto type = ElementwiseType<SwishFormula>(
      "Swish", "x gated by its own sigmoid; smooth, and below 0 not monotonic.",
      "y = x / (1 + exp(-beta * x))");
  type.param_fields = {"swish_param"};
  type.samples = SharedSamples();
  const SampleInput input{.shape = {2, 31}, .low = -4, .high = 4};
  type.samples.push_back(
      {.name = "beta", .prototxt = "swish_param { beta: 1.7 }", .inputs = {input}});
  type.samples.push_back(
      {.name = "beta_0", .prototxt = "swish_param { beta: 0 }", .inputs = {input}});
  type.samples.push_back(
      {.name = "negative_beta", .prototxt = "swish_param { beta: -0.5 }", .inputs = {input}});
  type.bad_samples = {{.prototxt = "swish_param { beta: nan }",
                       .input_shapes = {{2}},
                       .expect = "beta is nan, expected a finite number"}};
  registry.Add(std::move(type));

  auto silu = ElementwiseType<SiluFormula>("SiLU", "Sigmoid linear unit: Swish with beta 1.",
                                           "y = x / (1 + exp(-x))");
  silu.origin = "Crema";
  silu.samples = SharedSamples();
  registry.Add(std::move(silu));
}

}  // namespace crema
