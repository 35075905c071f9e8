// Internal to the f32 implementations of Convolution. Passes the arguments of the layer to math
// functions.
#pragma once

#include <string>
#include <utility>

#include "layers/convolution/convolution.h"
#include "math/conv_grads.h"

namespace crema {

// A template, since only the shape and the functions differ by implementation. `Maths` has static
// members: ShapeOf(geometry), and functions as in math/packed_conv.h: kForward, kBackward,
// kForwardScratch(shape, batch, threads) and kBackwardScratch(shape, batch, threads, relu).
template <typename Maths>
class ConvolutionImplementation {
 public:
  static ImplementationPtr Make(const std::string& name, Support (*supports)(const OpDesc&),
                                double (*seconds)(const OpDesc&) = nullptr) {
    const auto forward_scratch = [](const OpDesc& query) {
      const ConvGeometry g = MakeConvGeometry(query.layer, query.context.inputs[0].shape);
      return Maths::kForwardScratch(Maths::ShapeOf(g), g.batch, query.threads);
    };
    const auto backward_scratch = [](const OpDesc& query) {
      const ConvGeometry g = MakeConvGeometry(query.layer, query.context.inputs[0].shape);
      return Maths::kBackwardScratch(Maths::ShapeOf(g), g.batch, query.threads, ReluOf(query));
    };
    return MakeSimpleImplementation({.name = name}, {.supports = supports,
                                                     .can_fuse = CanFuseRelu,
                                                     .forward = Forward,
                                                     .backward = Backward,
                                                     .forward_scratch = forward_scratch,
                                                     .backward_scratch = backward_scratch,
                                                     .info = InfoWithRelu,
                                                     .seconds = seconds});
  }

 private:
  static void Forward(const Layer& layer, const ForwardArgs& args) {
    const auto& convolution = static_cast<const Convolution&>(layer);
    const ConvGeometry g = MakeConvGeometry(layer, args.inputs[0].shape());
    const float* bias = convolution.has_bias() ? args.parameters[1].data<float>() : nullptr;
    for (size_t i = 0; i < args.inputs.size(); ++i) {
      Maths::kForward(Maths::ShapeOf(g), g.batch, args.context.threads(),
                      args.inputs[i].data<float>(), args.parameters[0].data<float>(), bias,
                      ReluOf(layer, args.fused), args.outputs[i].data<float>(), args.scratch);
    }
  }

  static void Backward(const Layer& layer, const BackwardArgs& args) {
    const auto& convolution = static_cast<const Convolution&>(layer);
    const ConvGeometry g = MakeConvGeometry(layer, args.inputs[0].shape());
    const FusedRelu relu = ReluOf(layer, args.fused);
    ConvGrads grads;
    grads.weight = args.parameters[0].data<float>();
    grads.dweight = DataOrNull(args.parameter_grads[0]);
    grads.dbias = convolution.has_bias() ? DataOrNull(args.parameter_grads[1]) : nullptr;
    for (size_t i = 0; i < args.inputs.size(); ++i) {
      grads.x = args.inputs[i].data<float>();
      grads.y = relu.on ? args.outputs[i].data<float>() : nullptr;
      grads.dy = args.output_grads[i].data<float>();
      grads.dx = DataOrNull(args.input_grads[i]);
      Maths::kBackward(Maths::ShapeOf(g), g.batch, args.context.threads(), relu, grads,
                       args.scratch);
    }
  }

  static float* DataOrNull(const TensorView& view) {
    return view.empty() ? nullptr : view.data<float>();
  }
};

}  // namespace crema
