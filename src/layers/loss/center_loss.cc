// CenterLoss (Wen, Zhang, Li, Qiao: A Discriminative Feature Learning Approach for Deep Face
// Recognition, 2016) learns a centre c_k for each class:
//   loss = sum_n |x_n - c[label_n]|^2 / (2 N); dx_n = (x_n - c[label_n]) * dloss / N
// Centres follow the paper's equation 4 instead of the derivative: the "gradient" of c_k is
//   sum over n of class k of (c_k - x_n) / (1 + number of items of class k)
// independent of the loss weight; lr_mult of the blob times base_lr is the paper's alpha.
#include <algorithm>
#include <memory>

#include "core/parallel_for.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "layers/layer_axis.h"
#include "layers/loss/feature_rules.h"
#include "layers/loss/item_batch.h"
#include "layers/loss/item_loops.h"
#include "layers/loss/labels.h"
#include "layers/loss/loss_type.h"
#include "math/scratch.h"

namespace crema {
namespace {

class CenterLoss final : public Layer {
 public:
  explicit CenterLoss(const LayerParameter& param)
      : Layer(param), classes_(param.center_loss_param().num_output()) {
    if (classes_ == 0) {
      FailField(*this, "center_loss_param.num_output",
                "num_output is missing or 0, expected the number of classes");
    }
  }

  LayerInfo Infer(const InferContext& context) const override {
    const BlobSpec& x = context.inputs[0];
    const SoftmaxSize sizes = SizesOf(x.shape);
    const Shape& labels = context.inputs[1].shape;
    if (labels.count() != sizes.outer) {
      FailInputs(*this, StrCat("features of shape ", ToString(x.shape), " need ", sizes.outer,
                               " labels, but the labels have shape ", ToString(labels)));
    }
    LayerInfo info = LossInfo(context, 1);
    info.parameters = {{.role = "centers",
                        .shape = Shape{classes_, sizes.inner},
                        .filler = param().center_loss_param().center_filler()}};
    return info;
  }

  // For the number of items of each class.
  size_t BackwardScratch(const InferContext&, const LayerInfo&, int) const override {
    return ScratchBytes<int64_t>(classes_) + kScratchSlack;
  }

  void Forward(const ForwardArgs& args) const override {
    const SoftmaxSize sizes = SizesOf(args.inputs[0].shape());
    CheckLabels(*this, args.inputs[1], Rule());
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const T* x = args.inputs[0].data<T>();
      const T* labels = args.inputs[1].data<T>();
      const T* centers = args.parameters[0].data<T>();
      const double sum = SumItems(
          args.context.threads(), sizes.outer, ItemGrain(sizes.inner), [&](int64_t n, double part) {
            const T* center = centers + static_cast<int64_t>(labels[n]) * sizes.inner;
            return part +
                   SquaredDistance<double>(OneThread(), x + n * sizes.inner, center, sizes.inner);
          });
      args.outputs[0].data<T>()[0] = static_cast<T>(sum / (2 * Items(sizes)));
    });
  }

  void Backward(const BackwardArgs& args) const override {
    CheckLabels(*this, args.inputs[1], Rule());
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      if (!args.input_grads[0].empty()) FeatureGradient<T>(args);
      if (!args.parameter_grads[0].empty()) AddCenterUpdate<T>(args);
    });
  }

 private:
  // outer is the number of items, inner the number of values of a feature.
  SoftmaxSize SizesOf(const Shape& shape) const {
    const int axis =
        LayerAxis(*this, shape, param().center_loss_param().axis(), "center_loss_param.axis");
    return {shape.count(0, axis), classes_, shape.count(axis)};
  }

  LabelRule Rule() const {
    return {.classes = classes_, .classes_from = "center_loss_param.num_output"};
  }

  static double Items(const SoftmaxSize& sizes) {
    return static_cast<double>(std::max<int64_t>(1, sizes.outer));
  }

  template <typename T>
  void FeatureGradient(const BackwardArgs& args) const {
    const SoftmaxSize sizes = SizesOf(args.inputs[0].shape());
    const T* x = args.inputs[0].data<T>();
    const T* labels = args.inputs[1].data<T>();
    const T* centers = args.parameters[0].data<T>();
    const T scale = static_cast<T>(args.output_grads[0].data<T>()[0] / Items(sizes));
    T* dx = args.input_grads[0].data<T>();
    ForItems(args.context.threads(), sizes.outer, ItemGrain(sizes.inner), [&](int64_t n) {
      const T* center = centers + static_cast<int64_t>(labels[n]) * sizes.inner;
      const int64_t at = n * sizes.inner;
      for (int64_t i = 0; i < sizes.inner; ++i) dx[at + i] = scale * (x[at + i] - center[i]);
    });
  }

  // Threads split the values of a centre, so that each value adds its items in a fixed order.
  template <typename T>
  void AddCenterUpdate(const BackwardArgs& args) const {
    const SoftmaxSize sizes = SizesOf(args.inputs[0].shape());
    const T* x = args.inputs[0].data<T>();
    const T* labels = args.inputs[1].data<T>();
    const T* centers = args.parameters[0].data<T>();
    T* update = args.parameter_grads[0].data<T>();
    int64_t* items = ScratchCutter(args.scratch).Take<int64_t>(classes_);
    std::fill_n(items, classes_, 0);
    for (int64_t n = 0; n < sizes.outer; ++n) ++items[static_cast<int64_t>(labels[n])];
    ParallelFor(args.context.threads(), sizes.inner, ItemGrain(sizes.outer),
                [&](int64_t begin, int64_t end, int) {
                  for (int64_t n = 0; n < sizes.outer; ++n) {
                    const auto label = static_cast<int64_t>(labels[n]);
                    const T share = T(1) / static_cast<T>(1 + items[label]);
                    for (int64_t i = begin; i < end; ++i) {
                      const int64_t c = label * sizes.inner + i;
                      update[c] += share * (centers[c] - x[n * sizes.inner + i]);
                    }
                  }
                });
  }

  const int64_t classes_;
};

std::vector<LayerSample> Samples() {
  const std::string filler = " center_filler { type: \"gaussian\" std: 1 }";
  std::vector<LayerSample> samples = {
      {.name = "rows",
       .prototxt = StrCat("center_loss_param { num_output: 3", filler, " }"),
       .inputs = {{.shape = {7, 4}}, Labels({7}, 2)}},
      {.name = "features_of_two_axes",
       .prototxt = StrCat("center_loss_param { num_output: 5", filler, " }"),
       .inputs = {{.shape = {4, 3, 2}}, Labels({4, 1}, 4)}},
      {.name = "last_axis",
       .prototxt = StrCat("center_loss_param { num_output: 3 axis: -1", filler, " }"),
       .inputs = {{.shape = {2, 3, 4}}, Labels({2, 3}, 2)}},
      {.name = "large",
       .prototxt = StrCat("center_loss_param { num_output: 9", filler, " }"),
       .inputs = {{.shape = {601, 37}}, Labels({601}, 8)}},
      {.name = "empty_batch",
       .prototxt = "center_loss_param { num_output: 3 }",
       .inputs = {{.shape = {0, 3}}, {.shape = {0}}}},
  };
  for (LayerSample& sample : samples) sample.parameter_gradient = false;
  return samples;
}

}  // namespace

void RegisterCenterLoss(Registry& registry) {
  LayerType type = LossType<CenterLoss>("CenterLoss");
  type.summary =
      "Pulls features to the learned centre of their class (Wen et al. 2016); use it beside "
      "SoftmaxWithLoss, with a small loss_weight.";
  type.formula =
      "loss = sum_n |x_n - c[label_n]|^2 / (2 N); a step moves c_k against sum of (c_k - x_n) over "
      "the items n of class k / (1 + number of these items)";
  type.input_docs = {
      "features x: items on the axes before center_loss_param.axis, N in all; the "
      "values of one after it",
      "labels: N whole numbers 0..num_output-1, in any shape; no gradient"};
  type.parameter_docs = {
      "centers: num_output x values of a feature; lr_mult * base_lr is the paper's alpha. Set "
      "decay_mult: 0"};
  type.differences = {
      "As in the paper and its code, the step of the centres does not depend on loss_weight; it is "
      "no derivative of the loss."};
  type.origin = "community";
  type.param_fields = {"center_loss_param"};
  type.samples = Samples();
  type.bad_samples = {
      {.input_shapes = {{4, 3}, {4}}, .expect = "num_output is missing or 0"},
      {.prototxt = "center_loss_param { num_output: 3 }",
       .input_shapes = {{4, 3}, {5}},
       .expect = "need 4 labels"},
      {.prototxt = "center_loss_param { num_output: 3 axis: 2 }",
       .input_shapes = {{4, 3}, {4}},
       .expect = "axis 2 is outside"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
