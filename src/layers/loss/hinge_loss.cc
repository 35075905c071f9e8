// HingeLoss, one-vs-all: s = +1 for the class of the label and -1 for the others,
//   h = max(0, 1 - s x); L1: loss = sum h / N; L2: loss = sum h^2 / N
// L1: dx = -s [h > 0] * dloss / N; L2: dx = -2 s h * dloss / N.
#include "layers/loss/element_loss.h"
#include "layers/loss/loss_type.h"

namespace crema {
namespace {

std::vector<LayerSample> Samples() {
  const std::string squared = "hinge_loss_param { norm: L2 }";
  const SampleInput labels = Labels({4}, 5);
  const SampleInput inside{.shape = {4, 6}, .low = -0.9, .high = 0.9};
  const SampleInput above{.shape = {4, 6}, .low = 1.1, .high = 3};
  const SampleInput below{.shape = {4, 2, 3, 1}, .low = -3, .high = -1.1};
  return {
      {.name = "inside_the_margin", .inputs = {inside, labels}},
      {.name = "above", .inputs = {above, labels}},
      {.name = "below", .inputs = {below, labels}},
      {.name = "squared", .prototxt = squared, .inputs = {inside, labels}},
      {.name = "squared_above", .prototxt = squared, .inputs = {above, labels}},
      {.name = "squared_below", .prototxt = squared, .inputs = {below, labels}},
      {.name = "large",
       .prototxt = squared,
       .inputs = {{.shape = {2003, 9}}, Labels({2003, 1}, 8)}},
      {.name = "empty_batch", .inputs = {{.shape = {0, 3}}, {.shape = {0}}}},
  };
}

}  // namespace

void RegisterHingeLoss(Registry& registry) {
  LayerType type = LossType<ElementLoss<HingeRule>>("HingeLoss");
  type.summary = "One-against-all hinge loss of class scores, as support vector machines have it.";
  type.formula =
      "h_nk = max(0, 1 - s_nk x_nk), s = 1 for the class of the label, else -1; L1: loss = sum h / "
      "N; L2: loss = sum h^2 / N";
  type.input_docs = {"scores: N items on axis 0, all values after it are the K classes",
                     "labels: N whole numbers 0..K-1; no gradient"};
  type.differences = {kLabelErrors};
  type.param_fields = {"hinge_loss_param"};
  type.samples = Samples();
  type.bad_samples = {
      {.input_shapes = {{4, 3}, {5}}, .expect = "need 4 labels"},
      {.input_shapes = {{4, 3}, {1, 4}}, .expect = "need 4 labels"},
      {.input_shapes = {{}, {}}, .expect = "axis 0 is the batch"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
