// Losses that are a sum over elements, on the CPU; see element_rules.h. loss = sum of costs / N, N
// being the size of axis 0 or the normalizer.
#pragma once

#include <span>

#include "graph/layer.h"
#include "layers/loss/element_rules.h"
#include "layers/loss/item_batch.h"
#include "layers/loss/item_loops.h"

namespace crema {

template <typename Rule>
class ElementLoss final : public Layer {
 public:
  explicit ElementLoss(const LayerParameter& param) : Layer(param), rule_(*this) {}

  LayerInfo Infer(const InferContext& context) const override {
    Rule::CheckShapes(*this, context.inputs);
    return LossInfo(context, Rule::kGradients);
  }

  void Forward(const ForwardArgs& args) const override {
    Rule::CheckValues(*this, args.inputs);
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const typename Rule::template Items<T, double> items(rule_, args.inputs);
      const int threads = args.context.threads();
      const double sum = SumItems(threads, items.count, ItemGrain(items.costs(), Rule::kGrain),
                                  [&](int64_t n, double part) {
                                    const int64_t own = items.Own(n), first = n * items.costs();
                                    for (int64_t i = first; i < first + items.costs(); ++i) {
                                      part += items.Cost(own, i);
                                    }
                                    return part;
                                  });
      args.outputs[0].data<T>()[0] =
          static_cast<T>(sum / Divisor(threads, args.inputs[0].shape(), items));
    });
  }

  void Backward(const BackwardArgs& args) const override {
    Rule::CheckValues(*this, args.inputs);
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const typename Rule::template Items<T, double> items(rule_, args.inputs);
      const int threads = args.context.threads();
      const double weight =
          args.output_grads[0].data<T>()[0] / Divisor(threads, args.inputs[0].shape(), items);
      for (size_t input = 0; input < Rule::kGradients; ++input) {
        if (args.input_grads[input].empty()) continue;
        const double scale = input == 0 ? weight : -weight;
        T* dx = args.input_grads[input].data<T>();
        ForItems(threads, items.count, ItemGrain(items.gradients(), Rule::kGrain), [&](int64_t n) {
          const int64_t own = items.Own(n), first = n * items.gradients();
          for (int64_t i = first; i < first + items.gradients(); ++i) {
            dx[i] = static_cast<T>(items.Gradient(own, i, scale));
          }
        });
      }
    });
  }

 private:
  template <typename Items>
  double Divisor(int threads, const Shape& shape, const Items& items) const {
    if constexpr (Rule::kIgnores) {
      const double counted =
          SumItems(threads, items.count, Rule::kGrain,
                   [&](int64_t i, double sum) { return sum + (items.Ignores(i) ? 0 : 1); });
      return rule_.normalizer.Divisor(
          {.outer = shape[0], .all = items.count, .counted = static_cast<int64_t>(counted)});
    } else {
      return BatchSize(shape);
    }
  }

  const Rule rule_;
};

}  // namespace crema
