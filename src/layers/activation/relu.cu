// ReLU on the GPU; see relu.cc.
#include "graph/registry.h"
#include "math/cuda/launch.cuh"

namespace crema {
namespace {

template <typename T>
__global__ void ReluForward(int64_t count, float slope, const T* x, T* y) {
  for (int64_t i = FirstElement(); i < count; i += ElementStep()) {
    const float value = ToFloat(x[i]);
    y[i] = value > 0 ? x[i] : FromFloat<T>(slope * value);
  }
}

template <typename T>
__global__ void ReluBackward(int64_t count, float slope, const T* sign, const T* dy, T* dx) {
  for (int64_t i = FirstElement(); i < count; i += ElementStep()) {
    dx[i] = ToFloat(sign[i]) > 0 ? dy[i] : FromFloat<T>(slope * ToFloat(dy[i]));
  }
}

float Slope(const Layer& layer) { return layer.param().relu_param().negative_slope(); }

Support Supports(const KernelQuery& query) {
  if (IsCudaFloat(query.context.dtype)) return {};
  return Support::No("is for f32, f16 and bf16");
}

void Forward(const Layer& layer, const ForwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const ConstTensorView& x = args.inputs[0];
  DispatchCudaFloat(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    LaunchElements(queue, "ReluForward", ReluForward<T>, x.count(), x.count(), Slope(layer),
                   static_cast<const T*>(x.raw()), static_cast<T*>(args.outputs[0].raw()));
  });
}

void Backward(const Layer& layer, const BackwardArgs& args) {
  if (args.input_grads[0].empty()) return;
  const CudaQueue& queue = BoundQueue(args.context);
  // As in relu.cc: the output tells the sign where the slope is not negative.
  const ConstTensorView& sign = Slope(layer) >= 0 ? args.outputs[0] : args.inputs[0];
  DispatchCudaFloat(sign.dtype(), [&](auto zero) {
    using T = decltype(zero);
    LaunchElements(queue, "ReluBackward", ReluBackward<T>, sign.count(), sign.count(), Slope(layer),
                   static_cast<const T*>(sign.raw()),
                   static_cast<const T*>(args.output_grads[0].raw()),
                   static_cast<T*>(args.input_grads[0].raw()));
  });
}

}  // namespace

void RegisterReLUCuda(Registry& registry) {
  Kernel kernel;
  kernel.name = "cuda";
  kernel.device = DeviceType::kCuda;
  kernel.supports = Supports;
  kernel.forward = Forward;
  kernel.backward = Backward;
  registry.AddKernel("ReLU", std::move(kernel));
}

}  // namespace crema
