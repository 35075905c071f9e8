// Threshold on the GPU; see threshold.cc.
#include "crema.pb.h"
#include "layers/gpu_implementation.h"

namespace crema {
namespace {

template <typename T>
void Forward(const CudaQueue& queue, int64_t count, float threshold, const T* x, T* y) {
  ForElements(queue, "ThresholdForward", count, [=] CREMA_HOST_DEVICE(int64_t i) {
    y[i] = FromFloat<T>(ToFloat(x[i]) > threshold ? 1.0F : 0.0F);
  });
}

void ForwardOnGpu(const Layer& layer, const ForwardArgs& args) {
  const ConstTensorView& x = args.inputs[0];
  DispatchCudaFloat(x.dtype(), [&]<typename T>(T) {
    Forward(BoundQueue(args.context), x.count(), layer.param().threshold_param().threshold(),
            Elements<T>(x), Elements<T>(args.outputs[0]));
  });
}

}  // namespace

void RegisterThresholdCuda(Registry& registry) {
  registry.AddImplementation("Threshold", MakeCudaImplementation(ForwardOnGpu, nullptr));
}

}  // namespace crema
