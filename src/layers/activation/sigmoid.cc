// Sigmoid: y = 1 / (1 + exp(-x)), element by element. dx = dy * y * (1 - y).
#include "layers/activation/elementwise.h"

namespace crema {

void RegisterSigmoid(Registry& registry) {
  auto type =
      ElementwiseType<SigmoidFormula>("Sigmoid", "Logistic function.", "y = 1 / (1 + exp(-x))");
  type.param_fields = {"sigmoid_param"};
  type.samples = {
      {.name = "plain", .prototxt = "", .inputs = {{.shape = {2, 3, 4, 5}, .low = -4, .high = 4}}},
      {.name = "large", .prototxt = "", .inputs = {{.shape = {3, 6007}}}},
      {.name = "scalar", .prototxt = "", .inputs = {{.shape = {}}}},
      {.name = "engine_hint",
       .prototxt = "sigmoid_param { engine: CAFFE }",
       .inputs = {{.shape = {1, 7}}}},
      {.name = "empty_batch", .prototxt = "", .inputs = {{.shape = {0, 3}}}},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
