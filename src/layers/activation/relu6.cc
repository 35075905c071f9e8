// ReLU6: y = min(max(x, 0), 6) + slope * min(x, 0), element by element.
// dx = dy where 0 < x < 6, slope * dy where x <= 0, 0 from 6 on. If slope >= 0, y determines which:
// backward then reads y, and the layer may run in place.
#include "layers/activation/elementwise.h"
#include "layers/activation/part_blocks.h"

namespace crema {

void RegisterReLU6(Registry& registry) {
  auto type =
      ElementwiseType<Relu6Formula>("ReLU6", "ReLU that is flat from 6 on, as in MobileNet.",
                                    "y = min(max(x, 0), 6) + negative_slope * min(x, 0)");
  type.origin = "MobileNet ports";
  type.param_fields = {"relu6_param"};
  type.implementations = PartBlockImplementations();
  const SampleInput zero{.shape = {2, 3, 4, 5}, .low = -3, .high = 5, .has_kink = true};
  const SampleInput six{.shape = {2, 31}, .low = 1, .high = 9, .has_kink = true, .kink = 6};
  type.samples = {
      {.name = "around_0", .prototxt = "", .inputs = {zero}},
      {.name = "around_6", .prototxt = "", .inputs = {six}},
      {.name = "leaky", .prototxt = "relu6_param { negative_slope: 0.1 }", .inputs = {zero}},
      {.name = "negative", .prototxt = "relu6_param { negative_slope: -0.5 }", .inputs = {zero}},
      {.name = "empty_batch", .prototxt = "", .inputs = {{.shape = {0, 3}}}},
  };
  type.bad_samples = {{"relu6_param { negative_slope: inf }",
                       {{2}},
                       "negative_slope is inf, expected a finite number"}};
  registry.Add(std::move(type));
}

}  // namespace crema
