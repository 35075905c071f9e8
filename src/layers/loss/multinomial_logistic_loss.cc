// MultinomialLogisticLoss on given probabilities: loss = -sum_n ln max(p[n, label_n], 1e-20) / N.
// dp = -dloss / (N max(p, 1e-20)) at the labels, 0 elsewhere.
#include <algorithm>
#include <cmath>
#include <memory>

#include "core/parallel_for.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/loss/item_batch.h"
#include "layers/loss/labels.h"
#include "math/reduce.h"

namespace crema {
namespace {

constexpr double kSmallest = 1e-20;  // Caffe's kLOG_THRESHOLD

// With this order of arguments NaN stays NaN.
template <typename T>
double Clamped(T p) {
  return std::max(static_cast<double>(p), kSmallest);
}

class MultinomialLogisticLoss final : public Layer {
 public:
  using Layer::Layer;

  LayerInfo Infer(const InferContext& context) const override {
    const BlobSpec& prob = context.inputs[0];
    CheckLabelShape(*this, prob.shape, RowSize(*this, prob.shape), context.inputs[1].shape, true);
    LayerInfo info;
    info.outputs = {{Shape{}, prob.dtype}};
    info.backward_reads_input = {true, true};
    info.gradient_forbidden = {false, true};
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    const SoftmaxSize extent = RowSize(*this, args.inputs[0].shape());
    CheckLabels(*this, args.inputs[1], {.classes = extent.classes});
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const T* prob = args.inputs[0].data<T>();
      const T* labels = args.inputs[1].data<T>();
      const double sum = OrderedSum(
          args.context.threads(), extent.outer, ItemGrain(1), [&](int64_t begin, int64_t end) {
            double part = 0;
            for (int64_t n = begin; n < end; ++n) {
              const int64_t i = n * extent.classes + static_cast<int64_t>(labels[n]);
              part -= std::log(Clamped(prob[i]));
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
      const T* prob = args.inputs[0].data<T>();
      const T* labels = args.inputs[1].data<T>();
      T* dp = args.input_grads[0].data<T>();
      const double scale = args.output_grads[0].data<T>()[0] / BatchSize(args.inputs[0].shape());
      ParallelFor(args.context.threads(), extent.outer, ItemGrain(extent.classes),
                  [&](int64_t begin, int64_t end, int) {
                    std::fill(dp + begin * extent.classes, dp + end * extent.classes, T(0));
                    for (int64_t n = begin; n < end; ++n) {
                      const int64_t i = n * extent.classes + static_cast<int64_t>(labels[n]);
                      dp[i] = static_cast<T>(-scale / Clamped(prob[i]));
                    }
                  });
    });
  }
};

}  // namespace

void RegisterMultinomialLogisticLoss(Registry& registry) {
  LayerType type;
  type.name = "MultinomialLogisticLoss";
  type.category = "loss";
  type.summary =
      "Cross entropy of given probabilities; SoftmaxWithLoss, which takes scores, is more stable.";
  type.formula = "loss = -sum_n ln max(p[n, label_n], 1e-20) / N";
  type.input_docs = {"probabilities: N items on axis 0, all values after it are the K classes",
                     "labels: N whole numbers 0..K-1; no gradient"};
  type.output_docs = {"loss: scalar"};
  type.differences = {
      "Labels that are no whole number, or outside the classes, are an error that names the item."};
  type.inputs = {2, 2};
  type.default_loss_weight = 1;
  type.make = [](const LayerParameter& p) {
    return std::make_unique<const MultinomialLogisticLoss>(p);
  };
  const SampleInput prob{.shape = {5, 4}, .low = 0.1, .high = 1};
  const SampleInput labels{.shape = {5}, .low = 0, .high = 3, .integer = true};
  type.samples = {
      {.name = "rows", .prototxt = "", .inputs = {prob, labels}},
      {.name = "four_axes",
       .prototxt = "",
       .inputs = {{.shape = {5, 2, 2, 1}, .low = 0.2, .high = 2},
                  {.shape = {5, 1, 1, 1}, .low = 0, .high = 3, .integer = true}}},
      {.name = "large",
       .prototxt = "",
       .inputs = {{.shape = {20011, 3}, .low = 0.3, .high = 1},
                  {.shape = {20011}, .low = 0, .high = 2, .integer = true}}},
      {.name = "empty_batch", .prototxt = "", .inputs = {{.shape = {0, 3}}, {.shape = {0}}}},
  };
  type.bad_samples = {
      {.prototxt = "", .input_shapes = {{4, 3}, {5}}, .expect = "need 4 labels"},
      {.prototxt = "", .input_shapes = {{}, {}}, .expect = "axis 0 is the batch"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
