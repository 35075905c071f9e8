// Exp: y = base ^ (shift + scale * x), element by element; base -1 means e.
// dx = dy * y * log(base) * scale. Backward reads only y, so the layer may run in place.
#include "layers/activation/elementwise.h"

namespace crema {

void RegisterExp(Registry& registry) {
  auto type = ElementwiseType<ExpFormula>("Exp", "Exponential function of any base.",
                                          "y = base ^ (shift + scale * x)");
  type.traits.fits_16_bits = false;  // grows too fast
  type.param_fields = {"exp_param"};
  const SampleInput input{.shape = {2, 3, 4, 5}, .low = -2, .high = 2};
  type.samples = {
      {.name = "e", .prototxt = "", .inputs = {input}},
      {.name = "base_2",
       .prototxt = "exp_param { base: 2 scale: 0.5 shift: -1 }",
       .inputs = {input}},
      {.name = "small_base", .prototxt = "exp_param { base: 0.3 shift: 1 }", .inputs = {input}},
      {.name = "base_1", .prototxt = "exp_param { base: 1 scale: 3 }", .inputs = {input}},
      {.name = "scale_shift", .prototxt = "exp_param { scale: -1.5 shift: 2 }", .inputs = {input}},
      {.name = "empty_batch", .prototxt = "", .inputs = {{.shape = {0, 3}}}},
  };
  type.bad_samples = {
      {"exp_param { base: 0 }", {{2}}, "base is 0, expected more than 0, or -1 for e"},
      {"exp_param { base: -2 }", {{2}}, "base is -2"},
      {"exp_param { scale: nan }", {{2}}, "scale is nan"},
      {"exp_param { shift: inf }", {{2}}, "shift is inf"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
