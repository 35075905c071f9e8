// Deconvolution on the GPU; see deconvolution.cc.
#include <algorithm>

#include "layers/convolution/conv_cuda.h"
#include "layers/gpu_implementation.h"
#include "layers/layout_fallback.h"

namespace crema {
namespace {

FusedRelu ReluOf(const Layer& layer) {
  const ConvolutionParameter& p = layer.param().convolution_param();
  return {p.relu(), p.negative_slope()};
}

CudaConvScratch ScratchOf(const Layer& layer, const ConvGeometry& g, DType dtype, bool backward) {
  return CudaConvScratch(g, dtype, backward && ReluOf(layer).on ? g.InImage() : 0, backward);
}

size_t ScratchBytesOf(const OpDesc& query, bool backward) {
  const ConvGeometry g = MakeDeconvGeometry(query.layer, query.context.inputs[0].shape);
  return ScratchOf(query.layer, g, query.context.dtype, backward).Bytes();
}
size_t ForwardScratch(const OpDesc& query) { return ScratchBytesOf(query, false); }
size_t BackwardScratch(const OpDesc& query) { return ScratchBytesOf(query, true); }

void Forward(const Layer& layer, const ForwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const ConvGeometry g = MakeDeconvGeometry(layer, args.inputs[0].shape());
  const DType dtype = args.inputs[0].dtype();
  const CudaConv conv{queue, g, dtype};
  CudaConvScratch scratch = ScratchOf(layer, g, dtype, false);
  scratch.Take(args.scratch);
  const bool has_bias = layer.param().convolution_param().bias_term();
  for (size_t i = 0; i < args.inputs.size(); ++i) {
    for (int64_t n = 0; n < g.batch; n += scratch.images) {
      conv.Transposed(scratch, std::min(scratch.images, g.batch - n),
                      ElementAt(args.inputs[i].raw(), dtype, n * g.OutImage()),
                      args.learned[0].raw(),
                      ElementAt(args.outputs[i].raw(), dtype, n * g.InImage()));
    }
    CudaAddBiasRelu(queue, dtype, {g.batch, g.in_channels, g.window.InSize()},
                    has_bias ? args.learned[1].raw() : nullptr, nullptr, ReluOf(layer),
                    args.outputs[i].raw());
  }
}

void Backward(const Layer& layer, const BackwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const ConvGeometry g = MakeDeconvGeometry(layer, args.inputs[0].shape());
  const DType dtype = args.inputs[0].dtype();
  const CudaConv conv{queue, g, dtype};
  CudaConvScratch scratch = ScratchOf(layer, g, dtype, true);
  scratch.Take(args.scratch);
  const TensorView& dweight = args.learned_grads[0];
  const TensorView dbias = At(args.learned_grads, 1);
  for (size_t i = 0; i < args.inputs.size(); ++i) {
    for (int64_t n = 0; n < g.batch; n += scratch.images) {
      const int64_t images = std::min(scratch.images, g.batch - n);
      const void* dy = CudaBehindRelu(queue, scratch, ReluOf(layer), args, i, n * g.InImage(),
                                      images * g.InImage());
      if (!dbias.empty()) {
        CudaAddBiasGradient(queue, dtype, {images, g.in_channels, g.window.InSize()}, dy,
                            dbias.raw());
      }
      if (!dweight.empty()) {
        conv.AddWeightGradient(scratch, images, dy,
                               ElementAt(args.inputs[i].raw(), dtype, n * g.OutImage()),
                               dweight.raw());
      }
      if (!args.input_grads[i].empty()) {
        conv.Product(scratch, images, dy, args.learned[0].raw(),
                     ElementAt(args.input_grads[i].raw(), dtype, n * g.OutImage()));
      }
    }
  }
}

}  // namespace

void RegisterDeconvolutionCuda(Registry& registry) {
  const ImplementationPtr implementation = MakeCudaImplementation(
      Forward, Backward, {.forward_scratch = ForwardScratch, .backward_scratch = BackwardScratch});
  registry.AddImplementation("Deconvolution", implementation);
  registry.AddImplementation("Deconvolution", LayoutFallback(implementation));
}

}  // namespace crema
