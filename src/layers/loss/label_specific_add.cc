// LabelSpecificAdd (Wang et al.: Additive Margin Softmax, 2018; CosFace): y = x, plus the bias at
// the label where x > -bias there. A bias of -0.35 makes a margin. Its gradient is that of y.
#include "layers/loss/label_specific_add.h"

#include <algorithm>
#include <memory>

#include "core/parallel_for.h"
#include "core/strings.h"
#include "graph/registry.h"
#include "layers/layer_number.h"
#include "layers/loss/item_batch.h"
#include "layers/loss/labels.h"
#include "math/softmax.h"

namespace crema {
namespace {

class LabelSpecificAdd final : public Layer {
 public:
  explicit LabelSpecificAdd(const LayerParameter& param) : Layer(param) {
    FiniteNumber(*this, param.label_specific_add_param().bias(), "label_specific_add_param.bias");
  }

  LayerInfo Infer(const InferContext& context) const override {
    const Shape &x = context.inputs[0].shape, &labels = context.inputs[1].shape;
    CheckLabelShape(*this, x, RowSize(*this, x), labels, false);
    LayerInfo info;
    info.outputs = {context.inputs[0]};
    if (labels.axes() > 0 && labels[0] == x[0]) info.reach = Reach::kSample;
    info.gradient_forbidden = {false, true};
    info.in_place = true;
    info.moves_only = !AddsToLabel(param(), context.phase);
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    const SoftmaxSize size = RowSize(*this, args.inputs[0].shape());
    const bool adds = AddsToLabel(param(), args.phase);
    if (adds) CheckLabels(*this, args.inputs[1], {.classes = size.classes});
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const T *x = args.inputs[0].data<T>(), *labels = args.inputs[1].data<T>();
      T* y = args.outputs[0].data<T>();
      const T bias = static_cast<T>(param().label_specific_add_param().bias());
      ParallelFor(args.context.threads(), size.outer, ItemGrain(size.classes),
                  [&](int64_t begin, int64_t end, int) {
                    if (x != y)
                      std::copy(x + begin * size.classes, x + end * size.classes,
                                y + begin * size.classes);
                    for (int64_t n = begin; adds && n < end; ++n) {
                      T& score = y[n * size.classes + static_cast<int64_t>(labels[n])];
                      if (score > -bias) score += bias;
                    }
                  });
    });
  }

  void Backward(const BackwardArgs& args) const override {
    if (args.input_grads[0].empty()) return;
    DispatchFloat(args.output_grads[0].dtype(), [&]<typename T>(T) {
      const T* dy = args.output_grads[0].data<T>();
      T* dx = args.input_grads[0].data<T>();
      if (dx != dy) std::copy_n(dy, args.output_grads[0].count(), dx);
    });
  }
};

}  // namespace

bool AddsToLabel(const LayerParameter& param, Phase phase) {
  return phase == TRAIN || param.label_specific_add_param().transform_test();
}

void RegisterLabelSpecificAdd(Registry& registry) {
  LayerType type;
  type.name = "LabelSpecificAdd";
  type.category = "loss";
  type.summary = "Adds a margin to the score of the label (AM-Softmax, CosFace).";
  type.formula =
      "y[n, c] = x[n, c] + bias if c = label[n], x[n, c] > -bias and the phase is TRAIN "
      "(or transform_test), else x[n, c]";
  type.input_docs = {"x: N x classes, usually cosines", "label: N classes"};
  type.output_docs = {"y: the shape of x"};
  type.differences = {"transform_test has an effect. The fork reads it, but not in TEST.",
                      "A bias that changes with the iterations is not supported."};
  type.origin = "AM-Softmax";
  type.param_fields = {"label_specific_add_param"};
  type.inputs = {2, 2};
  type.make = [](const LayerParameter& p) { return std::make_unique<const LabelSpecificAdd>(p); };
  const auto sample = [](std::string name, const std::string& fields, Phase phase) {
    return LayerSample{.name = std::move(name),
                       .prototxt = "label_specific_add_param { " + fields + " }",
                       .inputs = {{.shape = {6, 5}, .has_kink = true, .kink = 0.35},
                                  {.shape = {6}, .low = 0, .high = 4, .integer = true}},
                       .phase = phase};
  };
  type.samples = {
      sample("margin", "bias: -0.35", TRAIN),
      sample("test", "bias: -0.35", TEST),
      sample("transform_test", "bias: -0.35 transform_test: true", TEST),
      {.name = "empty_batch",
       .prototxt = "label_specific_add_param { bias: -0.35 }",
       .inputs = {{.shape = {0, 4}}, {.shape = {0}, .integer = true}}},
  };
  type.bad_samples = {
      {"label_specific_add_param { bias: nan }", {{2, 3}, {2}}, "finite number"},
      {"label_specific_add_param { bias: -0.35 }", {{2, 3}, {3}}, "labels"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
