// Silence on the GPU; see silence.cc.
#include "layers/gpu_row.h"
#include "math/cuda/copy.cuh"

namespace crema {
namespace {

void ForwardRow(const Layer&, const ForwardArgs&) {}

void BackwardRow(const Layer&, const BackwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  for (const TensorView& grad : args.input_grads) {
    if (grad.empty()) continue;
    DispatchCudaFloat(grad.dtype(),
                      [&]<typename T>(T) { ZeroElements(queue, grad.count(), Elements<T>(grad)); });
  }
}

}  // namespace

void RegisterSilenceCuda(Registry& registry) {
  registry.AddKernel("Silence", MakeCudaRow(ForwardRow, BackwardRow));
}

}  // namespace crema
