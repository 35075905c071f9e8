// ELU: y = lambda * x where x > 0, lambda * alpha * (exp(x) - 1) elsewhere.
// dx = dy * lambda where x > 0, dy * (y + lambda * alpha) elsewhere. If alpha >= 0 and lambda > 0,
// y has the sign of x, and backward reads only y. Otherwise backward reads x.
#include "layers/activation/elementwise.h"
#include "layers/activation/part_blocks.h"

namespace crema {

void RegisterELU(Registry& registry) {
  auto type = ElementwiseType<EluFormula>(
      "ELU", "Exponential linear unit; with alpha 1.6732632 and lambda 1.050701 it is SELU.",
      "y = lambda * x where x > 0, lambda * alpha * (exp(x) - 1) elsewhere");
  type.differences = {
      "The gradient of a negative alpha is correct also if top and bottom have one name; Caffe's "
      "is wrong."};
  type.param_fields = {"elu_param"};
  type.implementations = PartBlockImplementations();
  const SampleInput input{.shape = {2, 3, 4, 5}, .low = -3, .high = 3, .has_kink = true};
  type.samples = {
      {.name = "plain", .prototxt = "", .inputs = {input}},
      {.name = "alpha", .prototxt = "elu_param { alpha: 0.3 }", .inputs = {input}},
      {.name = "selu",
       .prototxt = "elu_param { alpha: 1.6732632 lambda: 1.050701 }",
       .inputs = {input}},
      {.name = "alpha_0", .prototxt = "elu_param { alpha: 0 }", .inputs = {input}},
      {.name = "negative_alpha", .prototxt = "elu_param { alpha: -0.7 }", .inputs = {input}},
      {.name = "negative_lambda",
       .prototxt = "elu_param { alpha: 0.5 lambda: -2 }",
       .inputs = {input}},
      {.name = "empty_batch", .prototxt = "", .inputs = {{.shape = {0, 3}}}},
  };
  type.bad_samples = {
      {"elu_param { alpha: nan }", {{2}}, "alpha is nan, expected a finite number"},
      {"elu_param { lambda: inf }", {{2}}, "lambda is inf, expected a finite number"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
