// Convolution, also depthwise and of three axes, on the GPU; see convolution.cc.
#include <algorithm>

#include "layers/convolution/conv_cuda.h"
#include "layers/convolution/convolution.h"
#include "layers/gpu_implementation.h"
#include "layers/layout_fallback.h"

namespace crema {
namespace {

const Convolution& As(const Layer& layer) { return static_cast<const Convolution&>(layer); }

CudaConvScratch ScratchOf(const Layer& layer, const ConvGeometry& g, DType dtype, bool backward) {
  const int64_t masked = backward && As(layer).relu().on ? g.OutImage() : 0;
  return CudaConvScratch(g, dtype, masked, backward);
}

size_t ScratchBytesOf(const OpDesc& query, bool backward) {
  const ConvGeometry g = MakeConvGeometry(query.layer, query.context.inputs[0].shape);
  return ScratchOf(query.layer, g, query.context.dtype, backward).Bytes();
}
size_t ForwardScratch(const OpDesc& query) { return ScratchBytesOf(query, false); }
size_t BackwardScratch(const OpDesc& query) { return ScratchBytesOf(query, true); }

void Forward(const Layer& layer, const ForwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const ConvGeometry g = MakeConvGeometry(layer, args.inputs[0].shape());
  const DType dtype = args.inputs[0].dtype();
  const CudaConv conv{queue, g, dtype};
  CudaConvScratch scratch = ScratchOf(layer, g, dtype, false);
  scratch.Take(args.scratch);
  const void* bias = As(layer).has_bias() ? args.learned[1].raw() : nullptr;
  for (size_t i = 0; i < args.inputs.size(); ++i) {
    for (int64_t n = 0; n < g.batch; n += scratch.images) {
      const int64_t images = std::min(scratch.images, g.batch - n);
      conv.Product(scratch, images, ElementAt(args.inputs[i].raw(), dtype, n * g.InImage()),
                   args.learned[0].raw(),
                   ElementAt(args.outputs[i].raw(), dtype, n * g.OutImage()));
    }
    CudaAddBiasRelu(queue, dtype, {g.batch, g.out_channels, g.window.OutSize()}, bias, nullptr,
                    As(layer).relu(), args.outputs[i].raw());
  }
}

void Backward(const Layer& layer, const BackwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const ConvGeometry g = MakeConvGeometry(layer, args.inputs[0].shape());
  const DType dtype = args.inputs[0].dtype();
  const CudaConv conv{queue, g, dtype};
  CudaConvScratch scratch = ScratchOf(layer, g, dtype, true);
  scratch.Take(args.scratch);
  const TensorView& dweight = args.learned_grads[0];
  const TensorView dbias = At(args.learned_grads, 1);
  for (size_t i = 0; i < args.inputs.size(); ++i) {
    for (int64_t n = 0; n < g.batch; n += scratch.images) {
      const int64_t images = std::min(scratch.images, g.batch - n);
      const void* dy = CudaBehindRelu(queue, scratch, As(layer).relu(), args, i, n * g.OutImage(),
                                      images * g.OutImage());
      if (!dbias.empty()) {
        CudaAddBiasGradient(queue, dtype, {images, g.out_channels, g.window.OutSize()}, dy,
                            dbias.raw());
      }
      if (!dweight.empty()) {
        conv.AddWeightGradient(scratch, images,
                               ElementAt(args.inputs[i].raw(), dtype, n * g.InImage()), dy,
                               dweight.raw());
      }
      if (!args.input_grads[i].empty()) {
        conv.Transposed(scratch, images, dy, args.learned[0].raw(),
                        ElementAt(args.input_grads[i].raw(), dtype, n * g.InImage()));
      }
    }
  }
}

}  // namespace

void RegisterConvolutionCuda(Registry& registry) {
  for (const char* type :
       {"Convolution", "Convolution3D", "ConvolutionDepthwise", "DepthwiseConvolution"}) {
    const ImplementationPtr implementation = MakeCudaImplementation(
        Forward, Backward,
        {.forward_scratch = ForwardScratch, .backward_scratch = BackwardScratch});
    registry.AddImplementation(type, implementation);
    registry.AddImplementation(type, LayoutFallback(implementation));
  }
}

}  // namespace crema
