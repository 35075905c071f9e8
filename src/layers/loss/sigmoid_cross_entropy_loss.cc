// SigmoidCrossEntropyLoss: p = sigmoid(x);
//   loss = -sum t ln p + (1 - t) ln(1 - p) / normalizer over the targets that are not ignored,
// computed as x (t - [x >= 0]) - ln(1 + exp(-|x|)), which does not overflow.
// dx = (p - t) * dloss / normalizer, 0 if ignored.
#include <cmath>
#include <memory>
#include <optional>

#include "core/parallel_for.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/loss/item_batch.h"
#include "layers/loss/loss_normalizer.h"
#include "layers/loss/sigmoid_cross_entropy_rule.h"
#include "math/reduce.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 1 << 12;  // fewest elements per thread

class SigmoidCrossEntropyLoss final : public Layer {
 public:
  explicit SigmoidCrossEntropyLoss(const LayerParameter& param)
      : Layer(param),
        ignored_(IgnoredLabel(param.loss_param())),
        normalizer_(*this, LossParameter::BATCH_SIZE) {}

  LayerInfo Infer(const InferContext& context) const override {
    CheckEqualItems(*this, context.inputs);
    LayerInfo info;
    info.outputs = {{Shape{}, context.inputs[0].dtype}};
    info.backward_reads_input = {true, true};
    info.gradient_forbidden = {false, true};
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const T* x = args.inputs[0].data<T>();
      const T* targets = args.inputs[1].data<T>();
      const int threads = args.context.threads();
      const double sum =
          OrderedSum(threads, args.inputs[0].count(), kGrain, [&](int64_t begin, int64_t end) {
            double part = 0;
            for (int64_t i = begin; i < end; ++i) {
              if (!Ignores(targets[i])) part -= SigmoidLogLikelihood<double>(x[i], targets[i]);
            }
            return part;
          });
      args.outputs[0].data<T>()[0] = static_cast<T>(sum / Divisor<T>(threads, args.inputs[1]));
    });
  }

  void Backward(const BackwardArgs& args) const override {
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const T* x = args.inputs[0].data<T>();
      const T* targets = args.inputs[1].data<T>();
      T* dx = args.input_grads[0].data<T>();
      const int threads = args.context.threads();
      const double scale = args.output_grads[0].data<T>()[0] / Divisor<T>(threads, args.inputs[1]);
      ParallelFor(threads, args.inputs[0].count(), kGrain, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) {
          dx[i] = Ignores(targets[i]) ? T(0)
                                      : static_cast<T>(scale * (StableSigmoid<double>(x[i]) -
                                                                static_cast<double>(targets[i])));
        }
      });
    });
  }

 private:
  // As in Caffe, the target is truncated before the comparison.
  template <typename T>
  bool Ignores(T target) const {
    return ignored_ && std::trunc(static_cast<double>(target)) == *ignored_;
  }

  template <typename T>
  double Divisor(int threads, const ConstTensorView& targets) const {
    const T* data = targets.data<T>();
    int64_t counted = targets.count();
    if (ignored_) {
      counted = static_cast<int64_t>(
          OrderedSum(threads, targets.count(), kGrain, [&](int64_t begin, int64_t end) {
            double part = 0;
            for (int64_t i = begin; i < end; ++i) part += Ignores(data[i]) ? 0 : 1;
            return part;
          }));
    }
    return normalizer_.Divisor(
        {.outer = targets.shape()[0], .all = targets.count(), .counted = counted});
  }

  const std::optional<int32_t> ignored_;
  const LossNormalizer normalizer_;
};

std::vector<LayerSample> Samples() {
  const SampleInput scores{.shape = {4, 6}, .low = -4, .high = 4};
  const SampleInput shares{.shape = {4, 6}, .low = 0, .high = 1};
  const SampleInput classes{.shape = {4, 2, 3}, .low = -1, .high = 1, .integer = true};
  std::vector<LayerSample> samples = {
      {.name = "shares", .prototxt = "", .inputs = {scores, shares}},
      {.name = "targets_outside_0_to_1",
       .prototxt = "",
       .inputs = {scores, {.shape = {4, 6}, .low = -2, .high = 3}}},
      {.name = "fraction_is_cut_from_ignored",
       .prototxt = "loss_param { ignore_label: 0 normalization: VALID }",
       .inputs = {scores, {.shape = {4, 6}, .low = -2, .high = 3}}},
      {.name = "large",
       .prototxt = "loss_param { ignore_label: -1 normalization: VALID }",
       .inputs = {{.shape = {3, 7001}},
                  {.shape = {3, 7001}, .low = -1, .high = 1, .integer = true}}},
      {.name = "empty_batch", .prototxt = "", .inputs = {{.shape = {0, 3}}, {.shape = {0, 3}}}},
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
  LayerType type;
  type.name = "SigmoidCrossEntropyLoss";
  type.category = "loss";
  type.summary = "Cross entropy of the sigmoid of scores: each value is a yes or no of its own.";
  type.formula =
      "p = sigmoid(x); loss = -sum t ln p + (1 - t) ln(1 - p) / normalizer over targets that are "
      "not ignored; BATCH_SIZE (axis 0) when the text names no normalization";
  type.input_docs = {"scores: N items on axis 0, any axes after it",
                     "targets: as many items with as many values each, from 0 to 1; a target that "
                     "without its fraction is ignore_label does not count; no gradient"};
  type.output_docs = {"loss: scalar"};
  type.differences = {
      "Targets outside 0 to 1 give the value of the formula, as Caffe on the CPU; Caffe on a GPU "
      "sums magnitudes."};
  type.param_fields = {"loss_param"};
  type.unread_fields = {"loss_param.class_weight", "loss_param.class_weighting",
                        "loss_param.class_weighting_mode", "loss_param.weight_by_label_freqs",
                        "loss_param.label_smoothing"};
  type.inputs = {2, 2};
  type.default_loss_weight = 1;
  type.make = [](const LayerParameter& p) {
    return std::make_unique<const SigmoidCrossEntropyLoss>(p);
  };
  type.samples = Samples();
  const std::string expect = "same batch size and the same number of values";
  type.bad_samples = {
      {.prototxt = "", .input_shapes = {{4, 3}, {3, 4}}, .expect = expect},
      {.prototxt = "", .input_shapes = {{4, 3}, {4, 2}}, .expect = expect},
      {.prototxt = "loss_param { normalization: PRE_FIXED pre_fixed_normalizer: -1 }",
       .input_shapes = {{4, 3}, {4, 3}},
       .expect = "expected more than 0"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
