// Clip: y = min(max(x, low), high), element by element. dx = dy where low <= x <= high, else 0.
// Backward reads x, since y is the same at a bound and beyond it.
#include "layers/activation/elementwise.h"

namespace crema {

void RegisterClip(Registry& registry) {
  auto type = ElementwiseType<ClipFormula>("Clip", "Limits values to a range.",
                                           "y = min(max(x, min), max)");
  type.differences = {"min above max is an error; Caffe gives min everywhere.",
                      "With one name for top and bottom the gradient is still 0 outside the range; "
                      "in Caffe it then passes everywhere."};
  type.param_fields = {"clip_param"};
  const SampleInput low{.shape = {2, 3, 4, 5}, .has_kink = true, .kink = -0.5};
  const SampleInput high{.shape = {2, 31}, .has_kink = true, .kink = 0.25};
  type.samples = {
      {.name = "below", .prototxt = "clip_param { min: -0.5 max: 2 }", .inputs = {low}},
      {.name = "above", .prototxt = "clip_param { min: -2 max: 0.25 }", .inputs = {high}},
      {.name = "one_sided", .prototxt = "clip_param { min: -inf max: 0.25 }", .inputs = {high}},
      {.name = "constant", .prototxt = "clip_param { min: 2 max: 2 }", .inputs = {low}},
      {.name = "empty_batch",
       .prototxt = "clip_param { min: 0 max: 1 }",
       .inputs = {{.shape = {0, 3}}}},
  };
  type.bad_samples = {
      {"clip_param { min: 2 max: 1 }", {{2}}, "max is 1 and min is 2"},
      {"clip_param { min: nan max: 1 }", {{2}}, "expected min <= max"},
      {"", {{2}}, "min is missing"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
