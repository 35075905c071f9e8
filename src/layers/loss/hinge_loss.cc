// HingeLoss, one-vs-all: s = +1 for the class of the label and -1 for the others,
//   h = max(0, 1 - s x); L1: loss = sum h / N; L2: loss = sum h^2 / N
// L1: dx = -s [h > 0] * dloss / N; L2: dx = -2 s h * dloss / N.
#include <algorithm>
#include <memory>

#include "core/parallel_for.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/loss/hinge_rule.h"
#include "layers/loss/item_batch.h"
#include "layers/loss/labels.h"
#include "math/reduce.h"

namespace crema {
namespace {

class HingeLoss final : public Layer {
 public:
  explicit HingeLoss(const LayerParameter& param)
      : Layer(param), rule_{param.hinge_loss_param().norm() == HingeLossParameter::L2} {}

  LayerInfo Infer(const InferContext& context) const override {
    const BlobSpec& scores = context.inputs[0];
    CheckLabelShape(*this, scores.shape, RowSize(*this, scores.shape), context.inputs[1].shape,
                    true);
    LayerInfo info;
    info.outputs = {{Shape{}, scores.dtype}};
    info.backward_reads_input = {true, true};
    info.gradient_forbidden = {false, true};
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    const SoftmaxSize extent = RowSize(*this, args.inputs[0].shape());
    CheckLabels(*this, args.inputs[1], {.classes = extent.classes});
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const T* x = args.inputs[0].data<T>();
      const T* labels = args.inputs[1].data<T>();
      const double sum = OrderedSum(args.context.threads(), extent.outer, ItemGrain(extent.classes),
                                    [&](int64_t begin, int64_t end) {
                                      double part = 0;
                                      for (int64_t n = begin; n < end; ++n) {
                                        const auto label = static_cast<int64_t>(labels[n]);
                                        for (int64_t c = 0; c < extent.classes; ++c) {
                                          part += rule_.Cost<double>(x[n * extent.classes + c],
                                                                     c == label ? 1 : -1);
                                        }
                                      }
                                      return part;
                                    });
      args.outputs[0].data<T>()[0] = static_cast<T>(sum / BatchSize(args.inputs[0].shape()));
    });
  }

  void Backward(const BackwardArgs& args) const override {
    const SoftmaxSize extent = RowSize(*this, args.inputs[0].shape());
    CheckLabels(*this, args.inputs[1], {.classes = extent.classes});
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const T* x = args.inputs[0].data<T>();
      const T* labels = args.inputs[1].data<T>();
      T* dx = args.input_grads[0].data<T>();
      const double scale = args.output_grads[0].data<T>()[0] / BatchSize(args.inputs[0].shape());
      ParallelFor(args.context.threads(), extent.outer, ItemGrain(extent.classes),
                  [&](int64_t begin, int64_t end, int) {
                    for (int64_t n = begin; n < end; ++n) {
                      const auto label = static_cast<int64_t>(labels[n]);
                      for (int64_t c = 0; c < extent.classes; ++c) {
                        const int64_t i = n * extent.classes + c;
                        dx[i] =
                            static_cast<T>(scale * rule_.Slope<double>(x[i], c == label ? 1 : -1));
                      }
                    }
                  });
    });
  }

 private:
  const HingeRule rule_;
};

std::vector<LayerSample> Samples() {
  const std::string squared = "hinge_loss_param { norm: L2 }";
  const SampleInput labels{.shape = {4}, .low = 0, .high = 5, .integer = true};
  const SampleInput inside{.shape = {4, 6}, .low = -0.9, .high = 0.9};
  const SampleInput above{.shape = {4, 6}, .low = 1.1, .high = 3};
  const SampleInput below{.shape = {4, 2, 3, 1}, .low = -3, .high = -1.1};
  return {
      {.name = "inside_the_margin", .prototxt = "", .inputs = {inside, labels}},
      {.name = "above", .prototxt = "", .inputs = {above, labels}},
      {.name = "below", .prototxt = "", .inputs = {below, labels}},
      {.name = "squared", .prototxt = squared, .inputs = {inside, labels}},
      {.name = "squared_above", .prototxt = squared, .inputs = {above, labels}},
      {.name = "squared_below", .prototxt = squared, .inputs = {below, labels}},
      {.name = "large",
       .prototxt = squared,
       .inputs = {{.shape = {2003, 9}},
                  {.shape = {2003, 1}, .low = 0, .high = 8, .integer = true}}},
      {.name = "empty_batch", .prototxt = "", .inputs = {{.shape = {0, 3}}, {.shape = {0}}}},
  };
}

}  // namespace

void RegisterHingeLoss(Registry& registry) {
  LayerType type;
  type.name = "HingeLoss";
  type.category = "loss";
  type.summary = "One-against-all hinge loss of class scores, as support vector machines have it.";
  type.formula =
      "h_nk = max(0, 1 - s_nk x_nk), s = 1 for the class of the label, else -1; L1: loss = sum h / "
      "N; L2: loss = sum h^2 / N";
  type.input_docs = {"scores: N items on axis 0, all values after it are the K classes",
                     "labels: N whole numbers 0..K-1; no gradient"};
  type.output_docs = {"loss: scalar"};
  type.differences = {
      "Labels that are no whole number, or outside the classes, are an error that names the item."};
  type.param_fields = {"hinge_loss_param"};
  type.inputs = {2, 2};
  type.default_loss_weight = 1;
  type.make = [](const LayerParameter& p) { return std::make_unique<const HingeLoss>(p); };
  type.samples = Samples();
  type.bad_samples = {
      {.prototxt = "", .input_shapes = {{4, 3}, {5}}, .expect = "need 4 labels"},
      {.prototxt = "", .input_shapes = {{4, 3}, {1, 4}}, .expect = "need 4 labels"},
      {.prototxt = "", .input_shapes = {{}, {}}, .expect = "axis 0 is the batch"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
