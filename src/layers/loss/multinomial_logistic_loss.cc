// MultinomialLogisticLoss on given probabilities: loss = -sum_n ln max(p[n, label_n], 1e-20) / N.
// dp = -dloss / (N max(p, 1e-20)) at the labels, 0 elsewhere.
#include "layers/loss/element_loss.h"
#include "layers/loss/loss_type.h"

namespace crema {

void RegisterMultinomialLogisticLoss(Registry& registry) {
  LayerType type = LossType<ElementLoss<LogisticRule>>("MultinomialLogisticLoss");
  type.summary =
      "Cross entropy of given probabilities; SoftmaxWithLoss, which takes scores, is more stable.";
  type.formula = "loss = -sum_n ln max(p[n, label_n], 1e-20) / N";
  type.input_docs = {"probabilities: N items on axis 0, all values after it are the K classes",
                     "labels: N whole numbers 0..K-1; no gradient"};
  type.differences = {kLabelErrors};
  const SampleInput prob{.shape = {5, 4}, .low = 0.1, .high = 1};
  const SampleInput labels = Labels({5}, 3);
  type.samples = {
      {.name = "rows", .inputs = {prob, labels}},
      {.name = "four_axes",
       .inputs = {{.shape = {5, 2, 2, 1}, .low = 0.2, .high = 2}, Labels({5, 1, 1, 1}, 3)}},
      {.name = "large",
       .inputs = {{.shape = {20011, 3}, .low = 0.3, .high = 1}, Labels({20011}, 2)}},
      {.name = "empty_batch", .inputs = {{.shape = {0, 3}}, {.shape = {0}}}},
  };
  type.bad_samples = {
      {.input_shapes = {{4, 3}, {5}}, .expect = "need 4 labels"},
      {.input_shapes = {{}, {}}, .expect = "axis 0 is the batch"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
