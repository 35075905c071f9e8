// Losses that are a sum over pairs of values: EuclideanLoss, L1Loss, SmoothL1Loss.
//   loss = sum_i out_i * cost(in_i * (a_i - b_i)) / N, N being the size of axis 0;
//   da_i = in_i * out_i * slope(in_i * (a_i - b_i)) * dloss / N; db = -da.
// Inputs a and b may both get a gradient. Types with inputs 2 and 3 use them as `in` and `out`;
// otherwise both are 1.
#pragma once

#include <span>

#include "core/parallel_for.h"
#include "graph/layer.h"
#include "layers/loss/item_batch.h"
#include "math/reduce.h"

namespace crema {

// `Rule` is constructed from the layer and has Cost(difference) and Slope(difference), for f32 and
// f64.
template <typename Rule>
class PairLoss final : public Layer {
 public:
  explicit PairLoss(const LayerParameter& param) : Layer(param), rule_(*this) {}

  LayerInfo Infer(const InferContext& context) const override {
    CheckEqualItems(*this, context.inputs);
    LayerInfo info;
    info.outputs = {{Shape{}, context.inputs[0].dtype}};
    info.backward_reads_input.assign(context.inputs.size(), true);
    info.gradient_forbidden.assign(context.inputs.size(), true);
    info.gradient_forbidden[0] = info.gradient_forbidden[1] = false;
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const Pairs<T> pairs(args.inputs);
      const double sum = OrderedSum(args.context.threads(), args.inputs[0].count(), kGrain,
                                    [&](int64_t begin, int64_t end) {
                                      double part = 0;
                                      for (int64_t i = begin; i < end; ++i) {
                                        part += pairs.Outside(i) * rule_.Cost(pairs.Difference(i));
                                      }
                                      return part;
                                    });
      args.outputs[0].data<T>()[0] = static_cast<T>(sum / BatchSize(args.inputs[0].shape()));
    });
  }

  void Backward(const BackwardArgs& args) const override {
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const Pairs<T> pairs(args.inputs);
      const double weight = args.output_grads[0].data<T>()[0] / BatchSize(args.inputs[0].shape());
      for (size_t side = 0; side < 2; ++side) {
        if (args.input_grads[side].empty()) continue;
        const double scale = side == 0 ? weight : -weight;
        T* dx = args.input_grads[side].data<T>();
        ParallelFor(args.context.threads(), args.inputs[0].count(), kGrain,
                    [&](int64_t begin, int64_t end, int) {
                      for (int64_t i = begin; i < end; ++i) {
                        dx[i] = static_cast<T>(scale * pairs.Inside(i) * pairs.Outside(i) *
                                               rule_.Slope(pairs.Difference(i)));
                      }
                    });
      }
    });
  }

 private:
  static constexpr int64_t kGrain = 1 << 14;  // fewest elements per thread

  template <typename T>
  struct Pairs {
    explicit Pairs(std::span<const ConstTensorView> inputs)
        : a(inputs[0].data<T>()),
          b(inputs[1].data<T>()),
          inside(inputs.size() > 2 ? inputs[2].data<T>() : nullptr),
          outside(inputs.size() > 3 ? inputs[3].data<T>() : nullptr) {}

    double Inside(int64_t i) const { return inside == nullptr ? 1.0 : double(inside[i]); }
    double Outside(int64_t i) const { return outside == nullptr ? 1.0 : double(outside[i]); }
    double Difference(int64_t i) const {
      return Inside(i) * (static_cast<double>(a[i]) - static_cast<double>(b[i]));
    }

    const T* a;
    const T* b;
    const T* inside;
    const T* outside;
  };

  const Rule rule_;
};

}  // namespace crema
