// Layers with one input and one output in which each element depends only on the same element of
// the input: y = f(x). Each layer is defined by a formula:
//
//   struct Formula {
//     static constexpr int64_t kForwardGrain = kCheapGrain;   // or kCostlyGrain
//     static constexpr int64_t kBackwardGrain = kCheapGrain;
//     explicit Formula(const Layer& layer);  // reads and checks the parameters
//     bool reads_output() const;             // Gradient reads y; otherwise x
//     template <typename T> T Value(T x) const;
//     template <typename T> T Gradient(T x_or_y, T dy) const;
//   };
// It may have bool has_gradient() const, which is false if inputs get none, and FusedActivation
// fused() const.
//
// Formulas are in formulas.h. The three functions are CREMA_HOST_DEVICE, since the GPU runs them
// too. A layer whose gradient reads y may run in place.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "core/bfloat16.h"
#include "core/parallel_for.h"
#include "graph/registry.h"
#include "layers/activation/formulas.h"
#include "layers/activation/fused_activation.h"
#include "layers/part_blocks.h"
#include "math/vectorize.h"

namespace crema {

// Takes the formula by value, so that the loop keeps its constants in registers.
template <typename Formula, typename T>
CREMA_MULTIVERSION void ElementwiseForward(Formula formula, const T* x, T* y, int64_t begin,
                                           int64_t end) {
  for (int64_t i = begin; i < end; ++i) y[i] = formula.Value(Compute<T>{x[i]});
}

template <typename Formula, typename T>
CREMA_MULTIVERSION void ElementwiseBackward(Formula formula, const T* x_or_y, const T* dy, T* dx,
                                            int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    dx[i] = formula.Gradient(Compute<T>{x_or_y[i]}, Compute<T>{dy[i]});
  }
}

template <typename Formula>
class Elementwise : public Layer, public HasFusedActivation {
 public:
  explicit Elementwise(const LayerParameter& param) : Layer(param), formula_(*this) {}

  LayerInfo Infer(const InferContext& context) const override {
    LayerInfo info;
    info.outputs = {context.inputs[0]};
    info.reach = Reach::kElement;
    info.in_place = formula_.reads_output();
    info.any_format = true;
    info.backward_reads_output = {formula_.reads_output()};
    info.backward_reads_input = {!formula_.reads_output()};
    if constexpr (requires { formula_.has_gradient(); }) {
      info.gradient_forbidden = {!formula_.has_gradient()};
    }
    return info;
  }

  FusedActivation fused_activation() const override {
    if constexpr (requires { formula_.fused(); }) return formula_.fused();
    return {};
  }

  void Forward(const ForwardArgs& args) const override {
    DispatchStored(args.inputs[0].dtype(), [&]<typename T>(T) {
      const T* x = args.inputs[0].data<T>();
      T* y = args.outputs[0].data<T>();
      ParallelFor(args.context.threads(), args.inputs[0].count(), Formula::kForwardGrain,
                  [&](int64_t b, int64_t e, int) { ElementwiseForward(formula_, x, y, b, e); });
    });
  }

  void Backward(const BackwardArgs& args) const override {
    const ConstTensorView& read = formula_.reads_output() ? args.outputs[0] : args.inputs[0];
    DispatchStored(read.dtype(), [&]<typename T>(T) {
      const T* x_or_y = read.data<T>();
      const T* dy = args.output_grads[0].data<T>();
      T* dx = args.input_grads[0].data<T>();
      ParallelFor(
          args.context.threads(), read.count(), Formula::kBackwardGrain,
          [&](int64_t b, int64_t e, int) { ElementwiseBackward(formula_, x_or_y, dy, dx, b, e); });
    });
  }

 private:
  const Formula formula_;
};

// Returns the LayerType of an element-wise layer, without fields and samples.
template <typename Formula>
LayerType ElementwiseType(std::string name, std::string summary, std::string formula) {
  LayerType type;
  type.name = std::move(name);
  type.category = "activation";
  type.traits.fits_16_bits = true;
  type.summary = std::move(summary);
  type.formula = std::move(formula);
  type.input_docs = {"x: any shape"};
  type.output_docs = {"y: the shape of x"};
  type.implementations = PartBlocksImplementations();
  type.make = [](const LayerParameter& p) {
    return std::make_unique<const Elementwise<Formula>>(p);
  };
  return type;
}

}  // namespace crema
