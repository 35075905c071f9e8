// Cast on the GPU; see cast.cc.
#include "crema.pb.h"
#include "layers/arithmetic/cast.h"
#include "layers/gpu_implementation.h"
#include "math/cuda/copy.cuh"

namespace crema {
namespace {

template <typename T>
void CastElements(const CudaQueue& queue, int64_t count, Type to, const T* x, T* y) {
  ForElements(queue, "Cast", count,
              [=] CREMA_HOST_DEVICE(int64_t i) { y[i] = FromFloat<T>(CastTo(to, ToFloat(x[i]))); });
}

void ForwardOnGpu(const Layer& layer, const ForwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const ConstTensorView& x = args.inputs[0];
  DispatchCudaFloat(x.dtype(), [&]<typename T>(T) {
    CastElements(queue, x.count(), layer.param().cast_param().to(), Elements<T>(x),
                 Elements<T>(args.outputs[0]));
  });
}

void BackwardOnGpu(const Layer&, const BackwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const ConstTensorView& dy = args.output_grads[0];
  DispatchCudaFloat(dy.dtype(), [&]<typename T>(T) {
    CopyElements(queue, dy.count(), Elements<T>(dy), Elements<T>(args.input_grads[0]));
  });
}

}  // namespace

void RegisterCastCuda(Registry& registry) {
  registry.AddImplementation("Cast", MakeCudaImplementation(ForwardOnGpu, BackwardOnGpu));
}

}  // namespace crema
