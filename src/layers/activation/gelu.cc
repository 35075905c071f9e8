// GELU: y = x * P(x), P the distribution function of the standard normal, element by element.
//   NONE: P(x) = erfc(-x / sqrt(2)) / 2
//         dx = dy * (P(x) + x * p(x)), p the density
//   TANH: P(x) = (1 + t) / 2, t = tanh(c * (x + a * x^3)), c = sqrt(2 / pi), a = 0.044715
//         dx = dy * (P(x) + x * (1 - t^2) / 2 * c * (1 + 3 * a * x^2))
#include "crema.pb.h"
#include "layers/activation/elementwise.h"
#include "layers/activation/part_blocks.h"

namespace crema {

void RegisterGELU(Registry& registry) {
  auto type = ElementwiseType<GeluFormula<false>>(
      "GELU", "Gaussian error linear unit, the activation of transformers.",
      "y = x * P(x), P the distribution function of the standard normal; approximation: TANH takes "
      "P(x) = (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2");
  type.origin = "Crema";
  type.param_fields = {"gelu_param"};
  type.implementations = PartBlockImplementations();
  type.make = [](const LayerParameter& p) -> std::unique_ptr<const Layer> {
    if (p.gelu_param().approximation() == GELUParameter::TANH) {
      return std::make_unique<const Elementwise<GeluFormula<true>>>(p);
    }
    return std::make_unique<const Elementwise<GeluFormula<false>>>(p);
  };
  const SampleInput input{.shape = {2, 3, 4, 5}, .low = -4, .high = 4};
  type.samples = {
      {.name = "exact", .prototxt = "", .inputs = {input}},
      {.name = "tanh", .prototxt = "gelu_param { approximation: TANH }", .inputs = {input}},
      {.name = "large", .prototxt = "", .inputs = {{.shape = {3, 6007}}}},
      {.name = "large_tanh",
       .prototxt = "gelu_param { approximation: TANH }",
       .inputs = {{.shape = {3, 6007}}}},
      {.name = "empty_batch", .prototxt = "", .inputs = {{.shape = {0, 3}}}},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
