// SoftmaxWithLoss: p = softmax(scores), cost_i = -sum_c t_ic ln max(p_ic, FLT_MIN),
// loss = sum_i w_i cost_i / normalizer, over the positions i whose label is not ignored.
// The target t_i is 1 - s at the label and s / (K - 1) at the K - 1 other classes, s being
// label_smoothing. The weight w_i is the factor of the class of the label (class_weights.h) times
// the value of input 2 at the position, if there is an input 2.
// dscores_ic = w_i (p_ic - t_ic) * dloss / normalizer, 0 at ignored positions.
// Labels in the shape of the scores are targets g_ic themselves, for example mixed ones: with G_i =
// sum_c g_ic, t_ic = (1 - s) g_ic + s / (K - 1) (G_i - g_ic), which is the rule above if g_i is 1
// at one class and 0 elsewhere. dscores_ic = w_i (p_ic G_i - t_ic) * dloss / normalizer.
#include <algorithm>
#include <cfloat>
#include <cmath>

#include "core/parallel_for.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "layers/loss/class_weights.h"
#include "layers/loss/item_batch.h"
#include "layers/loss/item_loops.h"
#include "layers/loss/loss_type.h"
#include "layers/loss/softmax_loss.h"
#include "layers/loss/softmax_rules.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 1 << 12;  // fewest elements per thread

// With this order of arguments NaN stays NaN.
template <typename T>
double LogOf(T p) {
  return std::log(static_cast<double>(std::max(p, T(FLT_MIN))));
}

using Target = SoftmaxTarget;

// -sum_c t_c ln p_c of one position.
template <typename T>
double Cost(const SoftmaxBatch<T>& batch, const Target& target, int64_t position) {
  const SoftmaxSize& sizes = batch.sizes;
  const T* prob = batch.prob + batch.First(position);
  const int64_t label = batch.Label(position);
  double cost = -target.at_label * LogOf(prob[label * sizes.inner]);
  if (target.elsewhere == 0) return cost;
  for (int64_t c = 0; c < sizes.classes; ++c) {
    if (c != label) cost -= target.elsewhere * LogOf(prob[c * sizes.inner]);
  }
  return cost;
}

// Smoothed targets t_c of one position, computed from given targets.
template <typename T>
class GivenTargets {
 public:
  GivenTargets(const SoftmaxBatch<T>& batch, const Target& target, int64_t position)
      : values_(batch.targets + batch.First(position)), step_(batch.sizes.inner), target_(target) {
    for (int64_t c = 0; c < batch.sizes.classes; ++c) sum_ += Value(c);
  }
  double sum() const { return sum_; }
  double Of(int64_t c) const {
    return target_.at_label * Value(c) + target_.elsewhere * (sum_ - Value(c));
  }

 private:
  double Value(int64_t c) const { return static_cast<double>(values_[c * step_]); }

  const T* values_;
  const int64_t step_;
  const Target target_;
  double sum_ = 0;
};

template <typename T>
double CostOfTargets(const SoftmaxBatch<T>& batch, const Target& target, int64_t position) {
  const GivenTargets<T> given(batch, target, position);
  const T* prob = batch.prob + batch.First(position);
  double cost = 0;
  for (int64_t c = 0; c < batch.sizes.classes; ++c) {
    const double t = given.Of(c);
    if (t > 0) cost -= t * LogOf(prob[c * batch.sizes.inner]);
  }
  return cost;
}

// Returns the value of input 2 at a position, or 1 without input 2. Targets have no class factors.
template <typename T>
double GivenWeight(const SoftmaxBatch<T>& batch, int64_t position) {
  if (batch.inputs.size() < 3) return 1;
  return static_cast<double>(batch.inputs[2].template data<T>()[position]);
}

// Factors on the cost of each position, for labels.
template <typename T>
class PositionWeights {
 public:
  PositionWeights(const ClassWeights& classes, const SoftmaxBatch<T>& batch)
      : batch_(batch), any_(classes.any() || batch.inputs.size() > 2) {
    classes.Factors(std::span(batch.labels, static_cast<size_t>(batch.positions())), batch.ignored,
                    batch.class_scratch);
    if (batch.inputs.size() > 2) given_ = batch.inputs[2].template data<T>();
  }

  bool any() const { return any_; }
  double Of(int64_t position) const {
    const double factor = batch_.class_scratch[static_cast<size_t>(batch_.Label(position))];
    return given_ == nullptr ? factor : factor * static_cast<double>(given_[position]);
  }

 private:
  const SoftmaxBatch<T>& batch_;
  const bool any_;
  const T* given_ = nullptr;
};

// Corrects the gradient of one position: its weight and the class of the label.
template <typename T>
void MendPosition(const SoftmaxBatch<T>& batch, const Target& target, double scale, double weight,
                  int64_t position, T* dx) {
  const SoftmaxSize& sizes = batch.sizes;
  const int64_t first = batch.First(position);
  if (weight != 1) {
    for (int64_t c = 0; c < sizes.classes; ++c) dx[first + c * sizes.inner] *= T(weight);
  }
  const int64_t i = first + batch.Label(position) * sizes.inner;
  dx[i] = (batch.prob[i] - static_cast<T>(target.at_label)) * static_cast<T>(scale * weight);
}

class SoftmaxWithLoss final : public SoftmaxLossOf<SoftmaxWithLoss> {
 public:
  explicit SoftmaxWithLoss(const LayerParameter& param)
      : SoftmaxLossOf(param, param.softmax_param().axis(), "softmax_param.axis"),
        smoothing_(param.loss_param().label_smoothing()),
        class_weights_(*this) {
    if (!(smoothing_ >= 0 && smoothing_ < 1)) {
      FailField(*this, "loss_param.label_smoothing",
                StrCat("label_smoothing is ", smoothing_, ", expected 0 or more and less than 1"));
    }
  }

  template <typename T>
  double SumOf(const SoftmaxBatch<T>& batch) const {
    const Target target = TargetOf(batch.sizes);
    if (batch.targets != nullptr) return SumOfTargets(batch, target);
    const PositionWeights<T> weights(class_weights_, batch);
    return SumItems(batch.threads, batch.positions(), kGrain, [&](int64_t at, double sum) {
      return batch.Ignores(at) ? sum : sum + weights.Of(at) * Cost(batch, target, at);
    });
  }

  // Writes the gradient of an unweighted position without a label, then corrects each position.
  template <typename T>
  void WriteGradient(const SoftmaxBatch<T>& batch, double scale, T* dx) const {
    const Target target = TargetOf(batch.sizes);
    if (batch.targets != nullptr) return WriteGradientOfTargets(batch, target, scale, dx);
    const PositionWeights<T> weights(class_weights_, batch);
    const T elsewhere = static_cast<T>(target.elsewhere);
    const T factor = static_cast<T>(scale);
    const SoftmaxSize& sizes = batch.sizes;
    ParallelFor(batch.threads, batch.positions() * sizes.classes, kGrain,
                [&](int64_t begin, int64_t end, int) {
                  for (int64_t i = begin; i < end; ++i)
                    dx[i] = (batch.prob[i] - elsewhere) * factor;
                });
    ForItems(batch.threads, batch.positions(), kGrain, [&](int64_t at) {
      if (batch.Ignores(at)) {
        const int64_t first = batch.First(at);
        for (int64_t c = 0; c < sizes.classes; ++c) dx[first + c * sizes.inner] = 0;
      } else {
        MendPosition(batch, target, scale, weights.any() ? weights.Of(at) : 1.0, at, dx);
      }
    });
  }

 private:
  bool takes_targets() const override { return true; }

  void CheckRule(const InferContext& context, const SoftmaxSize& sizes) const override {
    class_weights_.CheckCount(*this, sizes.classes);
    if (class_weights_.any() && sizes.classes > 1 &&
        context.inputs[1].shape == context.inputs[0].shape) {
      FailField(
          *this, "loss_param.class_weight",
          "weights of classes need one label for each position, but the labels have the shape "
          "of the scores, a target for each class (from mixup or cutmix?): remove the weights");
    }
    if (context.inputs.size() < 3) return;
    const Shape& weights = context.inputs[2].shape;
    if (weights.count() == sizes.outer * sizes.inner) return;
    FailInputs(*this,
               StrCat("the third bottom holds a weight for each of the ", sizes.outer * sizes.inner,
                      " positions, but its shape is ", ToString(weights)));
  }

  Target TargetOf(const SoftmaxSize& sizes) const {
    return SmoothedTarget(smoothing_, sizes.classes);
  }

  template <typename T>
  static double SumOfTargets(const SoftmaxBatch<T>& batch, const Target& target) {
    return SumItems(batch.threads, batch.positions(), ItemGrain(batch.sizes.classes, kGrain),
                    [&](int64_t at, double sum) {
                      return sum + GivenWeight(batch, at) * CostOfTargets(batch, target, at);
                    });
  }

  template <typename T>
  static void WriteGradientOfTargets(const SoftmaxBatch<T>& batch, const Target& target,
                                     double scale, T* dx) {
    const SoftmaxSize& sizes = batch.sizes;
    ForItems(batch.threads, batch.positions(), ItemGrain(sizes.classes, kGrain), [&](int64_t at) {
      const GivenTargets<T> given(batch, target, at);
      const double factor = scale * GivenWeight(batch, at);
      for (int64_t c = 0; c < sizes.classes; ++c) {
        const int64_t i = batch.First(at) + c * sizes.inner;
        const double p = static_cast<double>(batch.prob[i]);
        dx[i] = static_cast<T>(factor * (p * given.sum() - given.Of(c)));
      }
    });
  }

  const double smoothing_;
  const ClassWeights class_weights_;
};

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
      {.name = "rows", .inputs = {rows, Labels({5}, 6)}},
      {.name = "labels_4d", .inputs = {rows, Labels({5, 1, 1, 1}, 6)}},
      {.name = "spatial", .inputs = {{.shape = {2, 4, 3, 5}}, Labels({2, 3, 5}, 3)}},
      {.name = "last_axis",
       .prototxt = "softmax_param { axis: -1 }",
       .inputs = {{.shape = {2, 3, 4}}, Labels({2, 3}, 3)}},
      {.name = "first_axis",
       .prototxt = "softmax_param { axis: 0 }",
       .inputs = {{.shape = {4, 3}}, Labels({3}, 3)}},
      {.name = "batch_1", .inputs = {{.shape = {1, 3}}, Labels({1}, 2)}},
      {.name = "one_class",
       .prototxt = "loss_param { label_smoothing: 0.1 }",
       .inputs = {{.shape = {4, 1}}, Labels({4}, 0)}},
      {.name = "large", .inputs = {{.shape = {1031, 9}}, Labels({1031}, 8)}},
      {.name = "probabilities", .inputs = {rows, Labels({5}, 6)}, .outputs = 2},
      {.name = "probabilities_of_maps",
       .prototxt = "loss_param { ignore_label: 1 class_weight: [1, 2, 3, 4] }",
       .inputs = {{.shape = {2, 4, 3, 5}}, Labels({2, 3, 5}, 3)},
       .outputs = 2},
      {.name = "targets", .inputs = {rows, Targets({5, 7})}},
      {.name = "targets_of_maps",
       .prototxt = "loss_param { label_smoothing: 0.1 normalization: FULL ignore_label: 1 }",
       .inputs = {{.shape = {2, 4, 3, 5}}, Targets({2, 4, 3, 5})}},
      {.name = "targets_and_probabilities",
       .prototxt = "loss_param { normalization: BATCH_SIZE }",
       .inputs = {{.shape = {2, 3, 4}}, Targets({2, 3, 4})},
       .outputs = 2},
      {.name = "targets_large", .inputs = {{.shape = {1031, 9}}, Targets({1031, 9})}},
      {.name = "empty_batch_of_targets", .inputs = {{.shape = {0, 3}}, {.shape = {0, 3}}}},
      {.name = "empty_batch", .inputs = {{.shape = {0, 3}}, {.shape = {0}}}},
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
      {.name = "weight_of_each_position", .inputs = {maps, map_labels, weights}},
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
      {.name = "empty_batch", .inputs = {{.shape = {0, 3}}, {.shape = {0}}, {.shape = {0}}}},
  };
}

BadSample Bad(const std::string& loss_param, const std::string& expect) {
  return {.prototxt = StrCat("loss_param { ", loss_param, " }"),
          .input_shapes = {{4, 3}, {4}},
          .expect = expect};
}

std::vector<BadSample> BadSamples() {
  return {
      {.input_shapes = {{4, 3}, {5}}, .expect = "need 4 labels"},
      {.input_shapes = {{4, 3}, {1, 4}}, .expect = "need 4 labels"},
      {.input_shapes = {{4}, {4}}, .expect = "axis 1 is outside"},
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

LayerType Common(const char* name) {
  LayerType type = SoftmaxLossType<SoftmaxWithLoss>(name, "softmax_param");
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
  return type;
}

}  // namespace

void RegisterSoftmaxWithLoss(Registry& registry) {
  LayerType type = Common("SoftmaxWithLoss");
  type.summary = "Cross entropy of the softmax of scores against one label for each position.";
  type.differences = {
      "Labels that are not whole numbers, or outside the classes, are an error that names the "
      "item; "
      "Caffe reads other memory.",
      "The second output needs no loss_weight, and its gradient counts; Caffe requires a "
      "loss_weight and ignores the gradient.",
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
  LayerType type = Common("WeightedSoftmaxWithLoss");
  type.summary = "SoftmaxWithLoss with a weight for each position.";
  type.input_docs.push_back(
      "weights: one for each position, in any shape; optional; no gradient. The normalizer counts "
      "positions and not their weights");
  type.inputs = {2, 3};
  type.differences = {
      "Layers of this name differ between forks. Here w_i is the value of the third bottom times "
      "the factor of the label's class; each is 1 if it is not given."};
  type.origin = "community";
  type.samples = WeightedSamples();
  type.bad_samples = BadSamples();
  type.bad_samples.push_back(
      {.input_shapes = {{4, 3}, {4}, {4, 3}}, .expect = "a weight for each of the 4 positions"});
  registry.Add(std::move(type));
}

}  // namespace crema
