// Convolution with one input channel a group, without a product of matrices
// (math/depthwise_conv.h).
#include "core/strings.h"
#include "layers/convolution/convolution.h"
#include "math/depthwise_conv.h"

namespace crema {
namespace {

DepthwiseShape ShapeOf(const ConvGeometry& g) {
  return DepthwiseShape(g.window, g.in_channels, g.out_channels);
}

bool HasGaps(const ConvWindow& w) {
  for (size_t i = 0; i < static_cast<size_t>(w.axes); ++i) {
    if (w.stride[i] > (w.kernel[i] - 1) * w.dilation[i] + 1) return true;
  }
  return false;
}

Support Supports(const KernelQuery& query) {
  if (query.context.dtype != DType::kF32) return Support::No("is for f32");
  const ConvGeometry g = MakeConvGeometry(query.layer, query.context.inputs[0].shape);
  if (g.groups != g.in_channels || g.groups == 1) {
    return Support::No("is for more than one group, with one input channel each");
  }
  if (g.window.axes < 1 || g.window.axes > 2) {
    return Support::No(StrCat("is for 1 or 2 spatial axes, not ", g.window.axes));
  }
  if (HasGaps(g.window)) return Support::No("a stride skips inputs");
  if (!PaddedViewIsReasonable(g)) {
    return Support::No("pad, stride or dilation reach far beyond the image");
  }
  return {};
}

void Forward(const Layer& layer, const ForwardArgs& args) {
  const auto& convolution = static_cast<const Convolution&>(layer);
  const ConvGeometry g = MakeConvGeometry(layer, args.inputs[0].shape());
  const float* bias = convolution.has_bias() ? args.learned[1].data<float>() : nullptr;
  for (size_t i = 0; i < args.inputs.size(); ++i) {
    DepthwiseForward(ShapeOf(g), g.batch, args.context.threads(), args.inputs[i].data<float>(),
                     args.learned[0].data<float>(), bias, convolution.relu(),
                     args.outputs[i].data<float>(), args.scratch);
  }
}

float* DataOrNull(const TensorView& view) { return view.empty() ? nullptr : view.data<float>(); }

void Backward(const Layer& layer, const BackwardArgs& args) {
  const auto& convolution = static_cast<const Convolution&>(layer);
  const ConvGeometry g = MakeConvGeometry(layer, args.inputs[0].shape());
  DepthwiseGrads grads;
  grads.weight = args.learned[0].data<float>();
  grads.dweight = DataOrNull(args.learned_grads[0]);
  grads.dbias = convolution.has_bias() ? DataOrNull(args.learned_grads[1]) : nullptr;
  for (size_t i = 0; i < args.inputs.size(); ++i) {
    grads.x = args.inputs[i].data<float>();
    grads.y = convolution.relu().on ? args.outputs[i].data<float>() : nullptr;
    grads.dy = args.output_grads[i].data<float>();
    grads.dx = DataOrNull(args.input_grads[i]);
    DepthwiseBackward(ShapeOf(g), g.batch, args.context.threads(), convolution.relu(), grads,
                      args.scratch);
  }
}

}  // namespace

Kernel DepthwiseConvolutionKernel() {
  Kernel kernel;
  kernel.name = "depthwise";
  kernel.supports = Supports;
  kernel.forward = Forward;
  kernel.backward = Backward;
  kernel.forward_scratch = [](const KernelQuery& query) {
    const ConvGeometry g = MakeConvGeometry(query.layer, query.context.inputs[0].shape);
    return DepthwiseForwardScratch(ShapeOf(g), g.batch, query.threads);
  };
  kernel.backward_scratch = [](const KernelQuery& query) {
    const ConvGeometry g = MakeConvGeometry(query.layer, query.context.inputs[0].shape);
    return DepthwiseBackwardScratch(ShapeOf(g), query.threads);
  };
  return kernel;
}

}  // namespace crema
