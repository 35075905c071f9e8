// ContrastiveLoss of pairs (a, b) with a label: d = |a - b|, and a pair costs
//   alike (label not 0): d^2;  unlike (label 0): max(margin - d, 0)^2
//   with legacy_version, unlike: max(margin - d^2, 0)
// loss = sum / (2 N). da = f (a - b) * dloss / N, db = -da, with f
//   alike: 1;  unlike with a positive cost: -(margin - d) / d, legacy -1;  else 0.
#include "layers/loss/feature_loss.h"
#include "layers/loss/loss_type.h"

namespace crema {
namespace {

std::vector<LayerSample> Samples() {
  const SampleInput a{.shape = {9, 3}};
  const SampleInput b{.shape = {9, 3, 1, 1}};
  const SampleInput labels = Labels({9}, 1);
  return {
      {.name = "pairs",
       .prototxt = "contrastive_loss_param { margin: 1 }",
       .inputs = {a, b, labels}},
      {.name = "wide_margin",
       .prototxt = "contrastive_loss_param { margin: 20 }",
       .inputs = {a, b, labels}},
      {.name = "legacy",
       .prototxt = "contrastive_loss_param { margin: 1.5 legacy_version: true }",
       .inputs = {a, b, labels}},
      {.name = "any_label_but_0_is_alike", .inputs = {a, b, Labels({9, 1}, 2, -2)}},
      {.name = "large",
       .prototxt = "contrastive_loss_param { margin: 2 }",
       .inputs = {{.shape = {1201, 17}}, {.shape = {1201, 17}}, Labels({1201}, 1)}},
      {.name = "empty_batch", .inputs = {{.shape = {0, 3}}, {.shape = {0, 3}}, {.shape = {0}}}},
  };
}

}  // namespace

void RegisterContrastiveLoss(Registry& registry) {
  LayerType type = LossType<FeatureLoss<ContrastiveRule>>("ContrastiveLoss");
  type.summary = "Pulls pairs of features that are alike together and pushes others apart.";
  type.formula =
      "d_n = |a_n - b_n|; loss = sum_n (d_n^2 if alike, else max(margin - d_n, 0)^2) / (2 N); "
      "legacy_version: max(margin - d_n^2, 0) for unlike pairs";
  type.input_docs = {"a: N items on axis 0, all values after it are the feature",
                     "b: as many items with as many values each; may get a gradient too",
                     "labels: N whole numbers; 0: unlike, any other: alike; no gradient"};
  type.differences = {
      "The gradient of an unlike pair is the derivative; Caffe adds 1e-4 to the distance that it "
      "divides by. At distance 0 it is 0 in both.",
      "Features may have any axes, and the batch size may change; Caffe wants height and width 1.",
      "Labels that are not whole numbers are an error that names the item."};
  type.param_fields = {"contrastive_loss_param"};
  type.inputs = {3, 3};
  type.samples = Samples();
  type.bad_samples = {
      {.input_shapes = {{4, 3}, {4, 2}, {4}}, .expect = "same number of values"},
      {.input_shapes = {{4, 3}, {4, 3}, {3}}, .expect = "label for each of the 4"},
      {.prototxt = "contrastive_loss_param { margin: -1 }",
       .input_shapes = {{4, 3}, {4, 3}, {4}},
       .expect = "margin is -1, expected 0 or more"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
