// Swish: y = x * sigmoid(beta * x), element by element. SiLU is Swish with beta 1.
// dx = dy * (s + beta * x * s * (1 - s)), s = sigmoid(beta * x). Different x can have the same y,
// so backward reads x.
#include "layers/activation/elementwise.h"

namespace crema {
namespace {

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
  type.bad_samples = {
      {"swish_param { beta: nan }", {{2}}, "beta is nan, expected a finite number"}};
  registry.Add(std::move(type));

  auto silu = ElementwiseType<SiluFormula>("SiLU", "Sigmoid linear unit: Swish with beta 1.",
                                           "y = x / (1 + exp(-x))");
  silu.origin = "Crema";
  silu.samples = SharedSamples();
  registry.Add(std::move(silu));
}

}  // namespace crema
