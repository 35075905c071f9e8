// Convolution, also depthwise and with three axes, and Deconvolution on the GPU; see convolution.cc
// and deconvolution.cc.
#include <algorithm>

#include "crema.pb.h"
#include "layers/convolution/conv_cuda.h"
#include "layers/convolution/convolution.h"
#include "layers/gpu_implementation.h"
#include "layers/layout_fallback.h"

namespace crema {
namespace {

// Sizes of the convolution from x to y or, if `kTransposed`, from y to x.
template <bool kTransposed>
struct Sizes {
  Sizes(const Layer& layer, const Shape& x)
      : g(kTransposed ? MakeDeconvGeometry(layer, x) : MakeConvGeometry(layer, x)) {}

  CudaPlanes Outputs(int64_t images) const {
    if (kTransposed) return {images, g.in_channels, g.window.InSize()};
    return {images, g.out_channels, g.window.OutSize()};
  }
  int64_t XImage() const { return kTransposed ? g.OutImage() : g.InImage(); }
  int64_t YImage() const { return kTransposed ? g.InImage() : g.OutImage(); }
  CudaConvScratch Scratch(FusedRelu relu, DType dtype, bool backward) const {
    return CudaConvScratch(g, dtype, backward && relu.on ? YImage() : 0, backward);
  }

  ConvGeometry g;
};

template <bool kTransposed, bool kBackward>
size_t ScratchBytesOf(const OpDesc& query) {
  const Sizes<kTransposed> sizes(query.layer, query.context.inputs[0].shape);
  return sizes.Scratch(ReluOf(query), query.context.dtype, kBackward).Bytes();
}

template <bool kTransposed>
void Forward(const Layer& layer, const ForwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const Sizes<kTransposed> sizes(layer, args.inputs[0].shape());
  const DType dtype = args.inputs[0].dtype();
  const CudaConv conv{queue, sizes.g, dtype};
  const FusedRelu relu = ReluOf(layer, args.fused);
  CudaConvScratch scratch = sizes.Scratch(relu, dtype, false);
  scratch.Take(args.scratch);
  const bool has_bias = layer.param().convolution_param().bias_term();
  const void* bias = has_bias ? args.parameters[1].raw() : nullptr;
  for (size_t i = 0; i < args.inputs.size(); ++i) {
    for (int64_t n = 0; n < sizes.g.batch; n += scratch.images) {
      const int64_t images = std::min(scratch.images, sizes.g.batch - n);
      const void* x = ElementAt(args.inputs[i].raw(), dtype, n * sizes.XImage());
      void* y = ElementAt(args.outputs[i].raw(), dtype, n * sizes.YImage());
      const auto pass = kTransposed ? &CudaConv::Transposed : &CudaConv::Product;
      (conv.*pass)(scratch, images, x, args.parameters[0].raw(), y);
    }
    CudaAddBiasRelu(queue, dtype, sizes.Outputs(sizes.g.batch), bias, nullptr, relu,
                    args.outputs[i].raw());
  }
}

template <bool kTransposed>
void Backward(const Layer& layer, const BackwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const Sizes<kTransposed> sizes(layer, args.inputs[0].shape());
  const DType dtype = args.inputs[0].dtype();
  const CudaConv conv{queue, sizes.g, dtype};
  const FusedRelu relu = ReluOf(layer, args.fused);
  CudaConvScratch scratch = sizes.Scratch(relu, dtype, true);
  scratch.Take(args.scratch);
  const TensorView& dweight = args.parameter_grads[0];
  const TensorView dbias = At(args.parameter_grads, 1);
  for (size_t i = 0; i < args.inputs.size(); ++i) {
    for (int64_t n = 0; n < sizes.g.batch; n += scratch.images) {
      const int64_t images = std::min(scratch.images, sizes.g.batch - n);
      const void* x = ElementAt(args.inputs[i].raw(), dtype, n * sizes.XImage());
      const void* dy = CudaReluGradient(queue, scratch, relu, args, i, n * sizes.YImage(),
                                        images * sizes.YImage());
      if (!dbias.empty()) {
        CudaAddBiasGradient(queue, dtype, sizes.Outputs(images), dy, dbias.raw());
      }
      if (!dweight.empty()) {
        conv.AddWeightGradient(scratch, images, kTransposed ? dy : x, kTransposed ? x : dy,
                               dweight.raw());
      }
      if (!args.input_grads[i].empty()) {
        const auto pass = kTransposed ? &CudaConv::Product : &CudaConv::Transposed;
        (conv.*pass)(scratch, images, dy, args.parameters[0].raw(),
                     ElementAt(args.input_grads[i].raw(), dtype, n * sizes.XImage()));
      }
    }
  }
}

template <bool kTransposed>
void AddImplementations(const char* type, Registry* registry) {
  const ImplementationPtr implementation =
      MakeCudaImplementation(Forward<kTransposed>, Backward<kTransposed>,
                             {.can_fuse = CanFuseRelu,
                              .forward_scratch = ScratchBytesOf<kTransposed, false>,
                              .backward_scratch = ScratchBytesOf<kTransposed, true>,
                              .info = InfoWithRelu});
  registry->AddImplementation(type, implementation);
  registry->AddImplementation(type, LayoutFallback(implementation));
}

}  // namespace

void RegisterConvolutionCuda(Registry& registry) {
  for (const char* type : kConvolutionTypes) AddImplementations<false>(type, &registry);
  AddImplementations<true>("Deconvolution", &registry);
}

}  // namespace crema
