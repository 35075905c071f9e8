// Permute and Transpose on the GPU; see permute.cc.
#include "layers/gpu_implementation.h"
#include "layers/shape/permute.h"
#include "layers/shape/strided_copy.cuh"

namespace crema {
namespace {

void ForwardOnGpu(const Layer& layer, const ForwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const ConstTensorView& x = args.inputs[0];
  const TensorView& y = args.outputs[0];
  const StridedBlock block = static_cast<const Permute&>(layer).Block(x.shape(), y.shape());
  DispatchCudaFloat(
      x.dtype(), [&]<typename T>(T) { CopyStrided(queue, block, Elements<T>(x), Elements<T>(y)); });
}

void BackwardOnGpu(const Layer& layer, const BackwardArgs& args) {
  const TensorView& dx = args.input_grads[0];
  if (dx.empty()) return;
  const CudaQueue& queue = BoundQueue(args.context);
  const ConstTensorView& dy = args.output_grads[0];
  const StridedBlock block = static_cast<const Permute&>(layer).Block(dx.shape(), dy.shape());
  DispatchCudaFloat(dy.dtype(), [&]<typename T>(T) {
    CopyStrided(queue, block.Reversed(), Elements<T>(dy), Elements<T>(dx));
  });
}

}  // namespace

void RegisterPermuteCuda(Registry& registry) {
  registry.AddImplementation("Permute", MakeCudaImplementation(ForwardOnGpu, BackwardOnGpu));
}

void RegisterTransposeCuda(Registry& registry) {
  registry.AddImplementation("Transpose", MakeCudaImplementation(ForwardOnGpu, BackwardOnGpu));
}

}  // namespace crema
