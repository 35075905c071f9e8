// Crop on the GPU; see crop.cc.
#include "layers/gpu_implementation.h"
#include "layers/shape/crop_part.h"
#include "layers/shape/strided_copy.cuh"
#include "math/cuda/copy.cuh"

namespace crema {
namespace {

void ForwardOnGpu(const Layer& layer, const ForwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const ConstTensorView& x = args.inputs[0];
  const TensorView& y = args.outputs[0];
  const CropPart part = MakeCropPart(layer, x.shape(), y.shape());
  DispatchCudaFloat(x.dtype(), [&]<typename T>(T) {
    CopyStrided(queue, part.block, Elements<T>(x) + part.first, Elements<T>(y));
  });
}

void BackwardOnGpu(const Layer& layer, const BackwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const ConstTensorView& dy = args.output_grads[0];
  DispatchCudaFloat(dy.dtype(), [&]<typename T>(T) {
    for (const TensorView& grad : args.input_grads) {
      if (!grad.empty()) ZeroElements(queue, grad.count(), Elements<T>(grad));
    }
    const TensorView& dx = args.input_grads[0];
    if (dx.empty()) return;
    const CropPart part = MakeCropPart(layer, dx.shape(), dy.shape());
    CopyStrided(queue, part.block.Reversed(), Elements<T>(dy), Elements<T>(dx) + part.first);
  });
}

}  // namespace

void RegisterCropCuda(Registry& registry) {
  registry.AddImplementation("Crop", MakeCudaImplementation(ForwardOnGpu, BackwardOnGpu));
}

}  // namespace crema
