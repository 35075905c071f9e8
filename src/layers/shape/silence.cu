// Silence on the GPU; see silence.cc.
#include "layers/gpu_implementation.h"
#include "math/cuda/copy.cuh"

namespace crema {
namespace {

void ForwardOnGpu(const Layer&, const ForwardArgs&) {}

void BackwardOnGpu(const Layer&, const BackwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  for (const TensorView& grad : args.input_grads) {
    if (grad.empty()) continue;
    DispatchCudaFloat(grad.dtype(),
                      [&]<typename T>(T) { ZeroElements(queue, grad.count(), Elements<T>(grad)); });
  }
}

}  // namespace

void RegisterSilenceCuda(Registry& registry) {
  registry.AddImplementation("Silence", MakeCudaImplementation(ForwardOnGpu, BackwardOnGpu));
}

}  // namespace crema
