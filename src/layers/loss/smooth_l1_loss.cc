// SmoothL1Loss: a PairLoss, quadratic near 0 and linear beyond.
//   cost(d) = (sigma d)^2 / 2 if |d| < 1 / sigma^2, else |d| - 1 / (2 sigma^2)
// SSD's layer has sigma 1 and up to three bottoms; Fast R-CNN's has smooth_l1_loss_param and up to
// four.
#include <memory>

#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/loss/pair_loss.h"
#include "layers/loss/pair_rules.h"

namespace crema {
namespace {

std::vector<LayerSample> Samples() {
  const SampleInput a{.shape = {4, 6}, .low = -2, .high = 2};
  const SampleInput b{.shape = {4, 6, 1, 1}};
  const SampleInput mask{.shape = {4, 6}, .low = 0, .high = 1, .integer = true};
  const SampleInput weight{.shape = {4, 6}, .low = 0, .high = 2};
  return {
      {.name = "plain", .prototxt = "", .inputs = {a, b}},
      {.name = "mask", .prototxt = "", .inputs = {a, b, mask}},
      {.name = "inside_weights", .prototxt = "", .inputs = {a, b, weight}},
      {.name = "inside_and_outside_weights",
       .prototxt = "smooth_l1_loss_param { sigma: 3 }",
       .inputs = {a, b, mask, weight}},
      {.name = "wide",
       .prototxt = "smooth_l1_loss_param { sigma: 0.5 }",
       .inputs = {a, b, weight, weight}},
      {.name = "large",
       .prototxt = "",
       .inputs = {{.shape = {3, 33301}}, {.shape = {3, 33301}, .low = -2, .high = 2}}},
      {.name = "empty_batch", .prototxt = "", .inputs = {{.shape = {0, 3}}, {.shape = {0, 3}}}},
  };
}

}  // namespace

void RegisterSmoothL1Loss(Registry& registry) {
  LayerType type;
  type.name = "SmoothL1Loss";
  type.category = "loss";
  type.summary = "Huber loss of the differences of two blobs, as box regression uses it.";
  type.formula =
      "d = inside * (a - b); loss = sum outside * f(d) / N; f(d) = (sigma d)^2 / 2 where |d| < 1 / "
      "sigma^2, else |d| - 1 / (2 sigma^2)";
  type.input_docs = {"a: N items on axis 0, any axes after it",
                     "b: as many items with as many values each; may get a gradient too",
                     "inside weights: one for each value; optional; no gradient",
                     "outside weights: one for each value; optional; no gradient"};
  type.output_docs = {"loss: scalar"};
  type.differences = {
      "The gradient is multiplied by the inside weights, as the formula says; SSD's is not, which "
      "is the same for weights of 0 and 1.",
      "SSD's layer and that of Fast R-CNN in one: sigma and a fourth bottom may be given or not."};
  type.origin = "SSD";
  type.param_fields = {"smooth_l1_loss_param"};
  type.inputs = {2, 4};
  type.default_loss_weight = 1;
  type.make = [](const LayerParameter& p) { return std::make_unique<const PairLoss<Huber>>(p); };
  type.samples = Samples();
  const std::string expect = "same batch size and the same number of values";
  type.bad_samples = {
      {.prototxt = "", .input_shapes = {{4, 3}, {4, 2}}, .expect = expect},
      {.prototxt = "", .input_shapes = {{4, 3}, {4, 3}, {4}}, .expect = expect},
      {.prototxt = "", .input_shapes = {{4, 3}, {4, 3}, {4, 3}, {3}}, .expect = expect},
      {.prototxt = "smooth_l1_loss_param { sigma: 0 }",
       .input_shapes = {{4, 3}, {4, 3}},
       .expect = "sigma is 0, expected more than 0"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
