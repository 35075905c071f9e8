// Losses of distances between features, on the CPU; see feature_rules.h.
#pragma once

#include "graph/layer.h"
#include "layers/loss/feature_rules.h"
#include "layers/loss/item_batch.h"
#include "layers/loss/item_loops.h"

namespace crema {

template <typename Rule>
class FeatureLoss final : public Layer {
 public:
  explicit FeatureLoss(const LayerParameter& param) : Layer(param), rule_(*this) {}

  LayerInfo Infer(const InferContext& context) const override {
    Rule::CheckShapes(*this, context.inputs);
    return LossInfo(context, Rule::kGradients);
  }

  void Forward(const ForwardArgs& args) const override {
    Rule::CheckValues(*this, args.inputs);
    const double divisor = Rule::kCostDivisor * BatchSize(args.inputs[0].shape());
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const typename Rule::template Items<T, double> items(rule_, args.inputs);
      const double sum =
          SumItems(args.context.threads(), items.count, ItemGrain(items.values),
                   [&](int64_t n, double part) { return part + items.Cost(OneThread(), n); });
      args.outputs[0].data<T>()[0] = static_cast<T>(sum / divisor);
    });
  }

  void Backward(const BackwardArgs& args) const override {
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const typename Rule::template Items<T, double> items(rule_, args.inputs);
      const double scale = args.output_grads[0].data<T>()[0] / BatchSize(args.inputs[0].shape());
      const FeatureGradients<T> to(args.input_grads);
      ForItems(args.context.threads(), items.count, ItemGrain(items.values),
               [&](int64_t n) { items.WriteGradients(OneThread(), n, scale, to); });
    });
  }

 private:
  const Rule rule_;
};

}  // namespace crema
