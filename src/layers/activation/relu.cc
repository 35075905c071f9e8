// ReLU: y = max(x, 0) + slope * min(x, 0), element by element.
// dx = dy where x > 0, slope * dy elsewhere. If slope >= 0, y determines which: backward then reads
// y, and the layer may run in place.
#include "layers/activation/elementwise.h"
#include "layers/activation/part_blocks.h"
#include "layers/int8_ranges.h"

namespace crema {

void RegisterReLU(Registry& registry) {
  auto type = ElementwiseType<ReluFormula>("ReLU", "Rectified linear unit, optionally leaky.",
                                           "y = max(x, 0) + negative_slope * min(x, 0)");
  type.differences = {
      "A negative slope below 0 is not computed in place (the sign of x could not be told from "
      "y)."};
  type.param_fields = {"relu_param"};
  type.traits.computes_on_bytes = true;
  type.implementations = PartBlockImplementations();
  type.implementations.insert(type.implementations.begin(), Int8ByFloats());
  const SampleInput input{.shape = {2, 3, 4, 5}, .has_kink = true};
  type.samples = {
      {.name = "plain", .prototxt = "", .inputs = {input}},
      {.name = "leaky", .prototxt = "relu_param { negative_slope: 0.1 }", .inputs = {input}},
      {.name = "negative", .prototxt = "relu_param { negative_slope: -0.5 }", .inputs = {input}},
      {.name = "empty_batch", .prototxt = "", .inputs = {{.shape = {0, 3}}}},
  };
  type.bad_samples = {{"relu_param { negative_slope: nan }",
                       {{2, 3}},
                       "negative_slope is nan, expected a finite number"}};
  registry.Add(std::move(type));
}

}  // namespace crema
