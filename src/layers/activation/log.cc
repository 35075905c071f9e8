// Log: y = log_base(shift + scale * x), element by element; base -1 means e.
// dx = dy * scale / (log(base) * (shift + scale * x)). Backward reads x, since an argument
// recomputed from y would have lost digits.
#include "layers/activation/elementwise.h"

namespace crema {

void RegisterLog(Registry& registry) {
  auto type = ElementwiseType<LogFormula>(
      "Log", "Logarithm of any base; NaN where its argument is negative.",
      "y = log_base(shift + scale * x)");
  type.traits.fits_16_bits = false;  // steep near 0
  type.param_fields = {"log_param"};
  const SampleInput input{.shape = {2, 3, 4, 5}, .low = 0.3, .high = 2};
  const SampleInput any{.shape = {2, 31}};
  type.samples = {
      {.name = "e", .prototxt = "", .inputs = {input}},
      {.name = "base_10", .prototxt = "log_param { base: 10 scale: 2 }", .inputs = {input}},
      {.name = "small_base", .prototxt = "log_param { base: 0.5 }", .inputs = {input}},
      {.name = "scale_shift", .prototxt = "log_param { scale: -1.5 shift: 3 }", .inputs = {any}},
      {.name = "empty_batch", .prototxt = "", .inputs = {{.shape = {0, 3}}}},
  };
  type.bad_samples = {
      {"log_param { base: 1 }", {{2}}, "base is 1, expected more than 0 and not 1, or -1 for e"},
      {"log_param { base: -3 }", {{2}}, "base is -3"},
      {"log_param { scale: nan }", {{2}}, "scale is nan"},
      {"log_param { shift: inf }", {{2}}, "shift is inf"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
