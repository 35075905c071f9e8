// Convolution by packed panels (math/packed_conv.h): the fast row of the CPU.
#include "core/strings.h"
#include "layers/convolution/convolution.h"
#include "math/packed_conv.h"

namespace crema {
namespace {

PackedConvShape PackedShape(const ConvGeometry& g) {
  return PackedConvShape(g.window, g.groups, g.in_channels, g.out_channels);
}

Support Supports(const KernelQuery& query) {
  if (!HavePackedConv()) return Support::No("needs a processor with AVX2 or AVX-512");
  if (query.context.dtype != DType::kF32) return Support::No("is for f32");
  const ConvGeometry g = MakeConvGeometry(query.layer, query.context.inputs[0].shape);
  if (g.window.axes > 2) {
    return Support::No(StrCat("is for at most 2 spatial axes, not ", g.window.axes));
  }
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
    PackedConvForward(PackedShape(g), g.batch, args.context.threads(), args.inputs[i].data<float>(),
                      args.learned[0].data<float>(), bias, convolution.relu(),
                      args.outputs[i].data<float>(), args.scratch);
  }
}

float* DataOrNull(const TensorView& view) { return view.empty() ? nullptr : view.data<float>(); }

void Backward(const Layer& layer, const BackwardArgs& args) {
  const auto& convolution = static_cast<const Convolution&>(layer);
  const ConvGeometry g = MakeConvGeometry(layer, args.inputs[0].shape());
  PackedConvGrads grads;
  grads.weight = args.learned[0].data<float>();
  grads.dweight = DataOrNull(args.learned_grads[0]);
  grads.dbias = convolution.has_bias() ? DataOrNull(args.learned_grads[1]) : nullptr;
  for (size_t i = 0; i < args.inputs.size(); ++i) {
    grads.x = args.inputs[i].data<float>();
    grads.y = convolution.relu().on ? args.outputs[i].data<float>() : nullptr;
    grads.dy = args.output_grads[i].data<float>();
    grads.dx = DataOrNull(args.input_grads[i]);
    PackedConvBackward(PackedShape(g), g.batch, args.context.threads(), convolution.relu(), grads,
                       args.scratch);
  }
}

}  // namespace

Kernel PackedConvolutionKernel() {
  Kernel kernel;
  kernel.name = "packed";
  kernel.supports = Supports;
  kernel.forward = Forward;
  kernel.backward = Backward;
  kernel.forward_scratch = [](const KernelQuery& query) {
    const ConvGeometry g = MakeConvGeometry(query.layer, query.context.inputs[0].shape);
    return PackedConvForwardScratch(PackedShape(g), g.batch, query.threads);
  };
  kernel.backward_scratch = [](const KernelQuery& query) {
    const ConvGeometry g = MakeConvGeometry(query.layer, query.context.inputs[0].shape);
    return PackedConvBackwardScratch(PackedShape(g), g.batch, query.threads,
                                     static_cast<const Convolution&>(query.layer).relu());
  };
  return kernel;
}

}  // namespace crema
