// Mish: y = x * tanh(log(1 + exp(x))), element by element.
// With e = exp(x) and n = e * (e + 2), the tanh is t = n / (n + 2), which needs no logarithm.
// dx = dy * (t + x * (1 - t^2) * sigmoid(x)), with 1 - t^2 = 4 * (n + 1) / (n + 2)^2.
#include "layers/activation/elementwise.h"
#include "layers/activation/part_blocks.h"

namespace crema {

void RegisterMish(Registry& registry) {
  auto type =
      ElementwiseType<MishFormula>("Mish", "x gated by the tanh of its softplus, as in YOLOv4.",
                                   "y = x * tanh(log(1 + exp(x)))");
  type.origin = "YOLOv4 ports";
  type.param_fields = {"mish_param"};
  type.implementations = PartBlockImplementations();
  type.samples = {
      {.name = "plain", .prototxt = "", .inputs = {{.shape = {2, 3, 4, 5}, .low = -4, .high = 4}}},
      {.name = "far", .prototxt = "", .inputs = {{.shape = {2, 40}, .low = -30, .high = 30}}},
      {.name = "engine_hint",
       .prototxt = "mish_param { engine: CAFFE }",
       .inputs = {{.shape = {3, 6007}}}},
      {.name = "empty_batch", .prototxt = "", .inputs = {{.shape = {0, 3}}}},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
