// SoftmaxWithLoss: p = softmax(scores); loss = -sum ln max(p[label], FLT_MIN) / normalizer, over
// the positions whose label is not ignored. Output 1, where there is one, is p.
// dscores = (p - [class == label]) * dloss / normalizer, 0 at ignored positions. As in Caffe, a
// gradient that arrives at output 1 is not looked at.
// label_smoothing s changes the gradient only: the target is 1 - s at the label and s / (K - 1) at
// the K - 1 other classes.
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <optional>

#include "core/parallel_for.h"
#include "core/strings.h"
#include "graph/registry.h"
#include "layers/layer_axis.h"
#include "layers/loss/labels.h"
#include "math/reduce.h"
#include "math/softmax.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 1 << 12;  // elements that pay for a thread

std::optional<int32_t> IgnoredLabel(const LossParameter& param) {
  return param.has_ignore_label() ? std::optional(param.ignore_label()) : std::nullopt;
}

LossParameter::NormalizationMode Normalization(const LossParameter& param) {
  if (param.has_normalization() || !param.has_normalize()) return param.normalization();
  return param.normalize() ? LossParameter::VALID : LossParameter::BATCH_SIZE;
}

// Sum of -ln p[label] over the positions that count.
template <typename T>
double LossSum(int threads, const SoftmaxExtent& extent, std::optional<int32_t> ignored,
               const T* prob, const T* labels) {
  return OrderedSum(threads, extent.outer * extent.inner, kGrain, [&](int64_t b, int64_t e) {
    double sum = 0;
    for (int64_t at = b; at < e; ++at) {
      const auto label = static_cast<int64_t>(labels[at]);
      if (ignored && label == *ignored) continue;
      const int64_t row = at / extent.inner * extent.classes + label;
      const T p = prob[row * extent.inner + at % extent.inner];
      // In this order NaN stays NaN and is noticed.
      sum -= std::log(static_cast<double>(std::max(p, T(FLT_MIN))));
    }
    return sum;
  });
}

template <typename T>
struct GradientRule {
  std::optional<int32_t> ignored;
  T scale;
  T at_label;  // targets
  T elsewhere;
};

template <typename T>
void WriteGradient(int threads, const SoftmaxExtent& extent, const GradientRule<T>& rule,
                   const T* prob, const T* labels, T* dx) {
  const int64_t positions = extent.outer * extent.inner;
  ParallelFor(threads, positions * extent.classes, kGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) dx[i] = (prob[i] - rule.elsewhere) * rule.scale;
  });
  ParallelFor(threads, positions, kGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t at = begin; at < end; ++at) {
      const auto label = static_cast<int64_t>(labels[at]);
      const int64_t first = at / extent.inner * extent.classes * extent.inner + at % extent.inner;
      if (rule.ignored && label == *rule.ignored) {
        for (int64_t c = 0; c < extent.classes; ++c) dx[first + c * extent.inner] = 0;
      } else {
        const int64_t i = first + label * extent.inner;
        dx[i] = (prob[i] - rule.at_label) * rule.scale;
      }
    }
  });
}

class SoftmaxWithLoss final : public Layer {
 public:
  explicit SoftmaxWithLoss(const LayerParameter& param)
      : Layer(param),
        ignored_(IgnoredLabel(param.loss_param())),
        normalization_(Normalization(param.loss_param())) {
    const LossParameter& loss = param.loss_param();
    if (loss.weight_by_label_freqs()) {
      Fail(ErrorCode::kUnsupported, "weight_by_label_freqs is not supported; remove it",
           {.layer = param.name(), .field = "loss_param.weight_by_label_freqs"});
    }
    if (normalization_ == LossParameter::PRE_FIXED && !(loss.pre_fixed_normalizer() > 0)) {
      FailField(*this, "loss_param.pre_fixed_normalizer",
                StrCat("pre_fixed_normalizer is ", loss.pre_fixed_normalizer(),
                       ", expected more than 0"));
    }
    if (!(loss.label_smoothing() >= 0 && loss.label_smoothing() < 1)) {
      FailField(*this, "loss_param.label_smoothing",
                StrCat("label_smoothing is ", loss.label_smoothing(),
                       ", expected 0 or more and less than 1"));
    }
  }

  LayerInfo Infer(const InferContext& context) const override {
    const BlobSpec& scores = context.inputs[0];
    CheckInputs(scores.shape, context.inputs[1].shape);
    LayerInfo info;
    info.outputs = {{Shape{}, scores.dtype}};
    if (context.output_count > 1) {
      info.outputs.push_back(scores);
      info.backward_reads_output = {false, true};
    } else {
      info.saved = {scores};
    }
    info.backward_reads_input = {false, true};
    info.gradient_forbidden = {false, true};
    return info;
  }

  // The probabilities, where neither an output nor a blob for backward holds them.
  size_t ForwardScratch(const InferContext& context, const LayerInfo& info, int) const override {
    const BlobSpec& scores = context.inputs[0];
    return info.outputs.size() > 1
               ? 0
               : static_cast<size_t>(scores.shape.count()) * SizeOf(scores.dtype);
  }

  void Forward(const ForwardArgs& args) const override {
    const SoftmaxExtent extent = Extent(args.inputs[0].shape());
    const int64_t counted = CheckLabels(*this, args.inputs[1], Rule(extent));
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      T* prob = reinterpret_cast<T*>(args.scratch.data());
      if (args.outputs.size() > 1) {
        prob = args.outputs[1].data<T>();
      } else if (!args.saved[0].empty()) {
        prob = args.saved[0].data<T>();
      }
      const int threads = args.context.threads();
      SoftmaxForward(threads, extent, args.inputs[0].data<T>(), prob);
      const double sum = LossSum(threads, extent, ignored_, prob, args.inputs[1].data<T>());
      args.outputs[0].data<T>()[0] = static_cast<T>(sum / Normalizer(extent, counted));
    });
  }

  void Backward(const BackwardArgs& args) const override {
    const ConstTensorView& probabilities =
        args.output_grads.size() > 1 ? args.outputs[1] : args.saved[0];
    const SoftmaxExtent extent = Extent(probabilities.shape());
    const int64_t counted = CheckLabels(*this, args.inputs[1], Rule(extent));
    DispatchFloat(probabilities.dtype(), [&]<typename T>(T) {
      const double weight = args.output_grads[0].data<T>()[0];
      const double smoothing = extent.classes > 1 ? param().loss_param().label_smoothing() : 0;
      const GradientRule<T> rule{
          .ignored = ignored_,
          .scale = static_cast<T>(weight / Normalizer(extent, counted)),
          .at_label = static_cast<T>(1 - smoothing),
          .elsewhere =
              smoothing == 0 ? T(0) : static_cast<T>(smoothing / double(extent.classes - 1))};
      WriteGradient(args.context.threads(), extent, rule, probabilities.data<T>(),
                    args.inputs[1].data<T>(), args.input_grads[0].data<T>());
    });
  }

 private:
  void CheckInputs(const Shape& scores, const Shape& labels) const {
    const SoftmaxExtent extent = Extent(scores);
    const bool same_batch =
        param().softmax_param().axis() == 0 || (labels.axes() > 0 && labels[0] == scores[0]);
    if (labels.count() == extent.outer * extent.inner && same_batch) return;
    FailInputs(*this, StrCat("scores of shape ", ToString(scores), " with classes on axis ",
                             Axis(scores), " need ", extent.outer * extent.inner,
                             " labels, one for each position, but the labels have shape ",
                             ToString(labels)));
  }

  int Axis(const Shape& shape) const {
    return LayerAxis(*this, shape, param().softmax_param().axis(), "softmax_param.axis");
  }

  SoftmaxExtent Extent(const Shape& shape) const {
    const int axis = Axis(shape);
    return {shape.count(0, axis), shape[axis], shape.count(axis + 1)};
  }

  LabelRule Rule(const SoftmaxExtent& extent) const {
    return {.classes = extent.classes, .inner = extent.inner, .ignored = ignored_};
  }

  double Normalizer(const SoftmaxExtent& extent, int64_t counted) const {
    double divisor = 1;
    if (normalization_ == LossParameter::FULL) {
      divisor = static_cast<double>(extent.outer * extent.inner);
    } else if (normalization_ == LossParameter::VALID) {
      divisor = static_cast<double>(counted);
    } else if (normalization_ == LossParameter::BATCH_SIZE) {
      divisor = static_cast<double>(extent.outer);
    } else if (normalization_ == LossParameter::PRE_FIXED) {
      divisor = param().loss_param().pre_fixed_normalizer();
    }
    return std::max(1.0, divisor);
  }

  const std::optional<int32_t> ignored_;
  const LossParameter::NormalizationMode normalization_;
};

std::vector<LayerSample> Samples() {
  const SampleInput rows{.shape = {5, 7}, .low = -3, .high = 3};
  const SampleInput labels{.shape = {5}, .low = 0, .high = 6, .integer = true};
  const SampleInput maps{.shape = {2, 4, 3, 5}};
  const SampleInput map_labels{.shape = {2, 3, 5}, .low = 0, .high = 3, .integer = true};
  std::vector<LayerSample> samples = {
      {.name = "rows", .prototxt = "", .inputs = {rows, labels}},
      {.name = "labels_4d",
       .prototxt = "",
       .inputs = {rows, {.shape = {5, 1, 1, 1}, .low = 0, .high = 6, .integer = true}}},
      {.name = "spatial", .prototxt = "", .inputs = {maps, map_labels}},
      {.name = "last_axis",
       .prototxt = "softmax_param { axis: -1 }",
       .inputs = {{.shape = {2, 3, 4}}, {.shape = {2, 3}, .low = 0, .high = 3, .integer = true}}},
      {.name = "batch_1",
       .prototxt = "",
       .inputs = {{.shape = {1, 3}}, {.shape = {1}, .low = 0, .high = 2, .integer = true}}},
      {.name = "large",
       .prototxt = "",
       .inputs = {{.shape = {1031, 9}}, {.shape = {1031}, .low = 0, .high = 8, .integer = true}}},
      // Its gradient reads output 1; a gradient that arrives there does not count.
      {.name = "probabilities",
       .prototxt = "",
       .inputs = {rows, labels},
       .outputs = 2,
       .gradient = false},
      {.name = "smoothing",
       .prototxt = "loss_param { label_smoothing: 0.1 }",
       .inputs = {rows, labels},
       .gradient = false},
      {.name = "empty_batch", .prototxt = "", .inputs = {{.shape = {0, 3}}, {.shape = {0}}}},
  };
  for (const char* rule :
       {"normalization: FULL", "normalization: VALID", "normalization: BATCH_SIZE",
        "normalization: NONE", "normalization: PRE_FIXED pre_fixed_normalizer: 3",
        "normalize: true", "normalize: false"}) {
    samples.push_back({.name = StrCat("ignore_", rule),
                       .prototxt = StrCat("loss_param { ignore_label: 2 ", rule, " }"),
                       .inputs = {maps, map_labels}});
  }
  return samples;
}

}  // namespace

void RegisterSoftmaxWithLoss(Registry& registry) {
  LayerType type;
  type.name = "SoftmaxWithLoss";
  type.category = "loss";
  type.summary = "Multinomial logistic loss of the softmax of scores; inputs: scores, labels.";
  type.formula = "loss = -sum_i ln softmax(x_i)[label_i] / normalizer";
  type.param_fields = {"softmax_param", "loss_param"};
  type.inputs = {2, 2};
  type.outputs = {1, 2};
  type.default_loss_weight = 1;
  type.make = [](const LayerParameter& p) { return std::make_unique<const SoftmaxWithLoss>(p); };
  type.samples = Samples();
  type.bad_samples = {
      {.prototxt = "", .input_shapes = {{4, 3}, {5}}, .expect = "need 4 labels"},
      {.prototxt = "", .input_shapes = {{4, 3}, {1, 4}}, .expect = "need 4 labels"},
      {.prototxt = "", .input_shapes = {{4}, {4}}, .expect = "axis 1 is outside"},
      {.prototxt = "loss_param { weight_by_label_freqs: true }",
       .input_shapes = {{4, 3}, {4}},
       .expect = "weight_by_label_freqs is not supported"},
      {.prototxt = "loss_param { normalization: PRE_FIXED pre_fixed_normalizer: 0 }",
       .input_shapes = {{4, 3}, {4}},
       .expect = "expected more than 0"},
      {.prototxt = "loss_param { label_smoothing: 1 }",
       .input_shapes = {{4, 3}, {4}},
       .expect = "less than 1"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
