// HardSigmoid: y = min(max(alpha * x + beta, 0), 1), element by element; HSigmoid is another name.
// dx = alpha * dy where 0 < y < 1, else 0: backward reads y alone, so the layer may run in place.
#include "layers/activation/elementwise.h"

namespace crema {

void RegisterHardSigmoid(Registry& registry) {
  auto type = ElementwiseType<HardSigmoidFormula>(
      "HardSigmoid", "Sigmoid of three linear pieces, as in MobileNetV3.",
      "y = min(max(alpha * x + beta, 0), 1)");
  type.origin = "MobileNetV3 ports";
  type.param_fields = {"hard_sigmoid_param"};
  const SampleInput below{
      .shape = {2, 3, 4, 5}, .low = -5, .high = 2, .has_kink = true, .kink = -3};
  const SampleInput above{.shape = {2, 31}, .low = -2, .high = 5, .has_kink = true, .kink = 3};
  const SampleInput keras{.shape = {2, 31}, .low = -4, .high = 2, .has_kink = true, .kink = -2.5};
  type.samples = {
      {.name = "below", .prototxt = "", .inputs = {below}},
      {.name = "above", .prototxt = "", .inputs = {above}},
      {.name = "keras",
       .prototxt = "hard_sigmoid_param { alpha: 0.2 beta: 0.5 }",
       .inputs = {keras}},
      {.name = "falling",
       .prototxt = "hard_sigmoid_param { alpha: -0.5 beta: 0.25 }",
       .inputs = {{.shape = {2, 31}, .has_kink = true, .kink = 0.5}}},
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
  registry.AddAlias("HSigmoid", "HardSigmoid");
}

}  // namespace crema
