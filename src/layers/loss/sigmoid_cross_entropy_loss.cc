// SigmoidCrossEntropyLoss: p = sigmoid(x);
//   loss = -sum t ln p + (1 - t) ln(1 - p) / normalizer over the targets that are not ignored,
// computed as x (t - [x >= 0]) - ln(1 + exp(-|x|)), which does not overflow.
// dx = (p - t) * dloss / normalizer, 0 if ignored.
#include "core/strings.h"
#include "layers/loss/element_loss.h"
#include "layers/loss/loss_type.h"

namespace crema {
namespace {

std::vector<LayerSample> Samples() {
  const SampleInput scores{.shape = {4, 6}, .low = -4, .high = 4};
  const SampleInput shares{.shape = {4, 6}, .low = 0, .high = 1};
  const SampleInput classes = Labels({4, 2, 3}, 1, -1);
  std::vector<LayerSample> samples = {
      {.name = "shares", .inputs = {scores, shares}},
      {.name = "targets_outside_0_to_1",
       .inputs = {scores, {.shape = {4, 6}, .low = -2, .high = 3}}},
      {.name = "fraction_is_cut_from_ignored",
       .prototxt = "loss_param { ignore_label: 0 normalization: VALID }",
       .inputs = {scores, {.shape = {4, 6}, .low = -2, .high = 3}}},
      {.name = "large",
       .prototxt = "loss_param { ignore_label: -1 normalization: VALID }",
       .inputs = {{.shape = {3, 7001}}, Labels({3, 7001}, 1, -1)}},
      {.name = "empty_batch", .inputs = {{.shape = {0, 3}}, {.shape = {0, 3}}}},
  };
  for (const char* rule :
       {"", "normalization: FULL", "normalization: VALID", "normalization: BATCH_SIZE",
        "normalization: NONE", "normalization: PRE_FIXED pre_fixed_normalizer: 3",
        "normalize: true", "normalize: false"}) {
    samples.push_back({.name = StrCat("ignore_", rule),
                       .prototxt = StrCat("loss_param { ignore_label: -1 ", rule, " }"),
                       .inputs = {scores, classes}});
  }
  return samples;
}

}  // namespace

void RegisterSigmoidCrossEntropyLoss(Registry& registry) {
  LayerType type = LossType<ElementLoss<SigmoidRule>>("SigmoidCrossEntropyLoss");
  type.summary = "Cross entropy of the sigmoid of scores: each value is a yes or no of its own.";
  type.formula =
      "p = sigmoid(x); loss = -sum t ln p + (1 - t) ln(1 - p) / normalizer over targets that are "
      "not ignored; BATCH_SIZE (axis 0) when the text names no normalization";
  type.input_docs = {"scores: N items on axis 0, any axes after it",
                     "targets: as many items with as many values each, from 0 to 1; targets whose "
                     "whole part is ignore_label do not count; no gradient"};
  type.differences = {
      "Targets outside 0 to 1 give the value of the formula, as Caffe on the CPU; Caffe on a GPU "
      "sums magnitudes."};
  type.param_fields = {"loss_param"};
  type.unread_fields = FieldsOfSoftmaxWithLoss();
  type.samples = Samples();
  type.bad_samples = {
      {.input_shapes = {{4, 3}, {3, 4}}, .expect = kUnequalItems},
      {.input_shapes = {{4, 3}, {4, 2}}, .expect = kUnequalItems},
      {.prototxt = "loss_param { normalization: PRE_FIXED pre_fixed_normalizer: -1 }",
       .input_shapes = {{4, 3}, {4, 3}},
       .expect = "expected more than 0"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
