// HardSwish: y = x * u, u = min(max(alpha * x + beta, 0), 1), element by element; HSwish is another
// name. dx = dy * (alpha * x + u) where 0 < u < 1, dy * u elsewhere; backward reads x.
#include "layers/activation/elementwise.h"

namespace crema {

void RegisterHardSwish(Registry& registry) {
  auto type = ElementwiseType<HardSwishFormula>(
      "HardSwish", "Swish with the hard sigmoid as gate, as in MobileNetV3.",
      "y = x * min(max(alpha * x + beta, 0), 1)");
  type.origin = "MobileNetV3 ports";
  type.param_fields = {"hard_sigmoid_param"};
  const SampleInput below{
      .shape = {2, 3, 4, 5}, .low = -5, .high = 2, .has_kink = true, .kink = -3};
  const SampleInput above{.shape = {2, 31}, .low = -2, .high = 5, .has_kink = true, .kink = 3};
  type.samples = {
      {.name = "below", .prototxt = "", .inputs = {below}},
      {.name = "above", .prototxt = "", .inputs = {above}},
      {.name = "gate",
       .prototxt = "hard_sigmoid_param { alpha: 0.5 beta: 0.25 }",
       .inputs = {{.shape = {2, 31}, .has_kink = true, .kink = -0.5}}},
      {.name = "empty_batch", .prototxt = "", .inputs = {{.shape = {0, 3}}}},
  };
  type.bad_samples = {
      {.prototxt = "hard_sigmoid_param { alpha: nan }",
       .input_shapes = {{2}},
       .expect = "alpha is nan, expected a finite number"},
      {.prototxt = "hard_sigmoid_param { beta: inf }",
       .input_shapes = {{2}},
       .expect = "beta is inf, expected a finite number"},
  };
  registry.Add(std::move(type));
  registry.AddAlias("HSwish", "HardSwish");
}

}  // namespace crema
