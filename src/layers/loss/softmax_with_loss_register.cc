// Registration of SoftmaxWithLoss and WeightedSoftmaxWithLoss, with their samples.
#include <utility>

#include "core/strings.h"
#include "graph/registry.h"
#include "layers/loss/softmax_with_loss.h"

namespace crema {
namespace {

SampleInput Labels(std::vector<int64_t> shape, double high) {
  return {.shape = std::move(shape), .low = 0, .high = high, .integer = true};
}

SampleInput Targets(std::vector<int64_t> shape) {
  return {.shape = std::move(shape), .low = 0, .high = 1};
}

// Samples that each set one normalization or weighting rule.
std::vector<LayerSample> RuleSamples() {
  const SampleInput maps{.shape = {2, 4, 3, 5}};
  const SampleInput map_labels = Labels({2, 3, 5}, 3);
  std::vector<LayerSample> samples;
  for (const char* rule :
       {"normalization: FULL", "normalization: VALID", "normalization: BATCH_SIZE",
        "normalization: NONE", "normalization: PRE_FIXED pre_fixed_normalizer: 3",
        "normalize: true", "normalize: false", "label_smoothing: 0.1",
        "class_weight: [0.5, 2, 1, 0]", "class_weighting: [3, 2, 1, 0.25]",
        "weight_by_label_freqs: true class_weighting: [1, 0, 2, 4]",
        "weight_by_label_freqs: false class_weighting: [1, 0, 2, 4]", "weight_by_label_freqs: true",
        "class_weighting_mode: \"balanced\"",
        "label_smoothing: 0.3 class_weight: [0.5, 2, 1, 0]"}) {
    samples.push_back({.name = StrCat("ignore_", rule),
                       .prototxt = StrCat("loss_param { ignore_label: 2 ", rule, " }"),
                       .inputs = {maps, map_labels}});
  }
  return samples;
}

std::vector<LayerSample> Samples() {
  const SampleInput rows{.shape = {5, 7}, .low = -3, .high = 3};
  std::vector<LayerSample> samples = {
      {.name = "rows", .prototxt = "", .inputs = {rows, Labels({5}, 6)}},
      {.name = "labels_4d", .prototxt = "", .inputs = {rows, Labels({5, 1, 1, 1}, 6)}},
      {.name = "spatial",
       .prototxt = "",
       .inputs = {{.shape = {2, 4, 3, 5}}, Labels({2, 3, 5}, 3)}},
      {.name = "last_axis",
       .prototxt = "softmax_param { axis: -1 }",
       .inputs = {{.shape = {2, 3, 4}}, Labels({2, 3}, 3)}},
      {.name = "first_axis",
       .prototxt = "softmax_param { axis: 0 }",
       .inputs = {{.shape = {4, 3}}, Labels({3}, 3)}},
      {.name = "batch_1", .prototxt = "", .inputs = {{.shape = {1, 3}}, Labels({1}, 2)}},
      {.name = "one_class",
       .prototxt = "loss_param { label_smoothing: 0.1 }",
       .inputs = {{.shape = {4, 1}}, Labels({4}, 0)}},
      {.name = "large", .prototxt = "", .inputs = {{.shape = {1031, 9}}, Labels({1031}, 8)}},
      {.name = "probabilities", .prototxt = "", .inputs = {rows, Labels({5}, 6)}, .outputs = 2},
      {.name = "probabilities_of_maps",
       .prototxt = "loss_param { ignore_label: 1 class_weight: [1, 2, 3, 4] }",
       .inputs = {{.shape = {2, 4, 3, 5}}, Labels({2, 3, 5}, 3)},
       .outputs = 2},
      {.name = "targets", .prototxt = "", .inputs = {rows, Targets({5, 7})}},
      {.name = "targets_of_maps",
       .prototxt = "loss_param { label_smoothing: 0.1 normalization: FULL ignore_label: 1 }",
       .inputs = {{.shape = {2, 4, 3, 5}}, Targets({2, 4, 3, 5})}},
      {.name = "targets_and_probabilities",
       .prototxt = "loss_param { normalization: BATCH_SIZE }",
       .inputs = {{.shape = {2, 3, 4}}, Targets({2, 3, 4})},
       .outputs = 2},
      {.name = "targets_large",
       .prototxt = "",
       .inputs = {{.shape = {1031, 9}}, Targets({1031, 9})}},
      {.name = "empty_batch_of_targets",
       .prototxt = "",
       .inputs = {{.shape = {0, 3}}, {.shape = {0, 3}}}},
      {.name = "empty_batch", .prototxt = "", .inputs = {{.shape = {0, 3}}, {.shape = {0}}}},
      {.name = "empty_batch_balanced",
       .prototxt = "loss_param { class_weighting_mode: \"balanced\" }",
       .inputs = {{.shape = {0, 3}}, {.shape = {0}}}},
  };
  for (LayerSample& sample : RuleSamples()) samples.push_back(std::move(sample));
  return samples;
}

std::vector<LayerSample> WeightedSamples() {
  const SampleInput maps{.shape = {2, 4, 3, 5}};
  const SampleInput map_labels = Labels({2, 3, 5}, 3);
  const SampleInput weights{.shape = {2, 3, 5}, .low = 0, .high = 2};
  return {
      {.name = "weight_of_each_position", .prototxt = "", .inputs = {maps, map_labels, weights}},
      {.name = "positions_and_classes",
       .prototxt = "loss_param { class_weight: [0.5, 2, 1, 0] ignore_label: 1 }",
       .inputs = {maps, map_labels, weights}},
      {.name = "classes_alone",
       .prototxt = "loss_param { class_weight: [0.5, 2, 1, 3] }",
       .inputs = {maps, map_labels}},
      {.name = "weights_and_targets",
       .prototxt = "loss_param { label_smoothing: 0.3 }",
       .inputs = {maps, Targets({2, 4, 3, 5}), weights}},
      {.name = "probabilities",
       .prototxt = "loss_param { label_smoothing: 0.2 }",
       .inputs = {{.shape = {5, 3}}, Labels({5}, 2), {.shape = {5, 1}}},
       .outputs = 2},
      {.name = "empty_batch",
       .prototxt = "",
       .inputs = {{.shape = {0, 3}}, {.shape = {0}}, {.shape = {0}}}},
  };
}

BadSample Bad(const std::string& loss_param, const std::string& expect) {
  return {.prototxt = StrCat("loss_param { ", loss_param, " }"),
          .input_shapes = {{4, 3}, {4}},
          .expect = expect};
}

std::vector<BadSample> BadSamples() {
  return {
      {.prototxt = "", .input_shapes = {{4, 3}, {5}}, .expect = "need 4 labels"},
      {.prototxt = "", .input_shapes = {{4, 3}, {1, 4}}, .expect = "need 4 labels"},
      {.prototxt = "", .input_shapes = {{4}, {4}}, .expect = "axis 1 is outside"},
      {.prototxt = "loss_param { class_weight: [1, 2, 3] }",
       .input_shapes = {{4, 3}, {4, 3}},
       .expect = "a target for each class"},
      Bad("normalization: PRE_FIXED pre_fixed_normalizer: 0", "expected more than 0"),
      Bad("label_smoothing: 1", "less than 1"),
      Bad("class_weight: 1 class_weight: 2", "there are 2 values of class_weight for 3 classes"),
      Bad("class_weighting: [1, 2, 3, 4]", "there are 4 values of class_weighting for 3 classes"),
      Bad("class_weight: [1, -1, 2]", "class_weight holds -1"),
      Bad("class_weight: [1, nan, 2]", "finite weights of 0 or more"),
      Bad("class_weight: [1, 1, 1] class_weighting: [1, 1, 1]", "two names of one list"),
      Bad("class_weighting_mode: \"median\"", "expected \"list\" or \"balanced\""),
      Bad("class_weighting_mode: \"balanced\" class_weight: [1, 1, 1]", "remove the list"),
  };
}

LayerType Common() {
  LayerType type;
  type.category = "loss";
  type.formula =
      "p = softmax(scores); loss = -sum_i w_i sum_c t_ic ln max(p_ic, FLT_MIN) / normalizer over "
      "positions i that are not ignored; t_ic = 1 - s at the label and s / (K - 1) elsewhere, s = "
      "label_smoothing";
  type.input_docs = {
      "scores: the K classes on axis softmax_param.axis, any axes before and after it",
      "labels: one for each position, in any shape with the same axis 0; whole numbers 0..K-1, or "
      "ignore_label. Or, in the shape of the scores, a target g_ic of 0 or more for each class, as "
      "mixup and cutmix give them: t_ic = (1 - s) g_ic + s / (K - 1) (sum_c g_ic - g_ic). Then no "
      "position is ignored, VALID counts all, and there are no class weights. No gradient"};
  type.output_docs = {"loss: scalar",
                      "probabilities: softmax of the scores, in their shape; optional"};
  type.param_fields = {"softmax_param", "loss_param"};
  type.outputs = {1, 2};
  type.default_loss_weight = 1;
  type.make = MakeSoftmaxWithLoss;
  return type;
}

}  // namespace

void RegisterSoftmaxWithLoss(Registry& registry) {
  LayerType type = Common();
  type.name = "SoftmaxWithLoss";
  type.summary = "Cross entropy of the softmax of scores against one label for each position.";
  type.inputs = {2, 2};
  type.differences = {
      "Labels that are no whole number, or outside the classes, are an error that names the item; "
      "Caffe reads other memory.",
      "The second output needs no loss_weight of its own, and a gradient that arrives there "
      "counts; "
      "Caffe refuses the first and drops the second.",
      "label_smoothing is part of the loss as well as of its gradient; NVCaffe and IntelCaffe "
      "smooth the gradient alone.",
      "SegNet applies class_weighting only with weight_by_label_freqs: true; here a list alone "
      "counts too, unless it is false. weight_by_label_freqs: true without a list weights each "
      "batch as class_weighting_mode: \"balanced\" does."};
  type.samples = Samples();
  type.bad_samples = BadSamples();
  registry.Add(std::move(type));
}

void RegisterWeightedSoftmaxWithLoss(Registry& registry) {
  LayerType type = Common();
  type.name = "WeightedSoftmaxWithLoss";
  type.summary = "SoftmaxWithLoss with a weight for each position.";
  type.input_docs.push_back(
      "weights: one for each position, in any shape; optional; no gradient. The normalizer counts "
      "positions and not their weights");
  type.inputs = {2, 3};
  type.differences = {
      "Forks differ in what they call so; here w_i is the value of the third bottom times the "
      "factor of the label's class, each 1 where it is not given."};
  type.origin = "community";
  type.samples = WeightedSamples();
  type.bad_samples = BadSamples();
  type.bad_samples.push_back({.prototxt = "",
                              .input_shapes = {{4, 3}, {4}, {4, 3}},
                              .expect = "a weight for each of the 4 positions"});
  registry.Add(std::move(type));
}

}  // namespace crema
