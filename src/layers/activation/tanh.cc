// TanH: y = tanh(x), element by element. dx = dy * (1 - y * y).
#include "layers/activation/elementwise.h"
#include "layers/activation/part_blocks.h"

namespace crema {

void RegisterTanH(Registry& registry) {
  auto type = ElementwiseType<TanHFormula>("TanH", "Hyperbolic tangent.", "y = tanh(x)");
  type.param_fields = {"tanh_param"};
  type.implementations = PartBlockImplementations();
  type.samples = {
      {.name = "plain", .prototxt = "", .inputs = {{.shape = {2, 3, 4, 5}, .low = -3, .high = 3}}},
      {.name = "large", .prototxt = "", .inputs = {{.shape = {3, 6007}}}},
      {.name = "scalar", .prototxt = "", .inputs = {{.shape = {}}}},
      {.name = "engine_hint",
       .prototxt = "tanh_param { engine: CAFFE }",
       .inputs = {{.shape = {1, 7}}}},
      {.name = "empty_batch", .prototxt = "", .inputs = {{.shape = {0, 3}}}},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
