// Parameter on the GPU; see parameter.cc.
#include "layers/gpu_implementation.h"
#include "math/cuda/copy.cuh"

namespace crema {
namespace {

template <typename T>
void AddGradient(const CudaQueue& queue, int64_t count, const T* dy, T* sum) {
  ForElements(queue, "ParameterGradient", count, [=] CREMA_HOST_DEVICE(int64_t i) {
    sum[i] = FromFloat<T>(ToFloat(sum[i]) + ToFloat(dy[i]));
  });
}

void ForwardOnGpu(const Layer&, const ForwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const TensorView& y = args.outputs[0];
  DispatchCudaFloat(y.dtype(), [&]<typename T>(T) {
    CopyElements(queue, y.count(), Elements<T>(args.learned[0]), Elements<T>(y));
  });
}

void BackwardOnGpu(const Layer&, const BackwardArgs& args) {
  if (args.learned_grads[0].empty()) return;
  const CudaQueue& queue = BoundQueue(args.context);
  const ConstTensorView& dy = args.output_grads[0];
  DispatchCudaFloat(dy.dtype(), [&]<typename T>(T) {
    AddGradient(queue, dy.count(), Elements<T>(dy), Elements<T>(args.learned_grads[0]));
  });
}

}  // namespace

void RegisterParameterCuda(Registry& registry) {
  registry.AddImplementation("Parameter", MakeCudaImplementation(ForwardOnGpu, BackwardOnGpu));
}

}  // namespace crema
