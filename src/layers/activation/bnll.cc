// BNLL: y = log(1 + exp(x)), element by element, also called softplus.
// dx = dy * sigmoid(x), and sigmoid(x) = 1 - exp(-y): backward reads y alone.
#include "layers/activation/elementwise.h"

namespace crema {

void RegisterBNLL(Registry& registry) {
  auto type = ElementwiseType<BnllFormula>(
      "BNLL", "Binomial normal log likelihood (softplus), a smooth ReLU.", "y = log(1 + exp(x))");
  type.differences = {
      "Far below 0 the value is exp(x); Caffe computes log(1 + exp(x)), which is 0 from about -17 "
      "on in single precision.",
      "May run in place; Caffe then computes wrong gradients."};
  type.samples = {
      {.name = "plain", .prototxt = "", .inputs = {{.shape = {2, 3, 4, 5}, .low = -4, .high = 4}}},
      {.name = "far", .prototxt = "", .inputs = {{.shape = {2, 40}, .low = -30, .high = 30}}},
      {.name = "large", .prototxt = "", .inputs = {{.shape = {3, 6007}}}},
      {.name = "empty_batch", .prototxt = "", .inputs = {{.shape = {0, 3}}}},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
