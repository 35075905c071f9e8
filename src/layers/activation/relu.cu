// ReLU on the GPU; see relu.cc.
#include "layers/gpu_row.h"

namespace crema {
namespace {

template <typename T>
void Forward(const CudaQueue& queue, int64_t count, float slope, const T* x, T* y) {
  ForElements(queue, "ReluForward", count, [=] CREMA_HOST_DEVICE(int64_t i) {
    const float value = ToFloat(x[i]);
    y[i] = value > 0 ? x[i] : FromFloat<T>(slope * value);
  });
}

template <typename T>
void Backward(const CudaQueue& queue, int64_t count, float slope, const T* sign, const T* dy,
              T* dx) {
  ForElements(queue, "ReluBackward", count, [=] CREMA_HOST_DEVICE(int64_t i) {
    dx[i] = ToFloat(sign[i]) > 0 ? dy[i] : FromFloat<T>(slope * ToFloat(dy[i]));
  });
}

float Slope(const Layer& layer) { return layer.param().relu_param().negative_slope(); }

void ForwardRow(const Layer& layer, const ForwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const ConstTensorView& x = args.inputs[0];
  DispatchCudaFloat(x.dtype(), [&]<typename T>(T) {
    Forward(queue, x.count(), Slope(layer), Elements<T>(x), Elements<T>(args.outputs[0]));
  });
}

void BackwardRow(const Layer& layer, const BackwardArgs& args) {
  if (args.input_grads[0].empty()) return;
  const CudaQueue& queue = BoundQueue(args.context);
  // As in relu.cc: the output tells the sign where the slope is not negative.
  const ConstTensorView& sign = Slope(layer) >= 0 ? args.outputs[0] : args.inputs[0];
  DispatchCudaFloat(sign.dtype(), [&]<typename T>(T) {
    Backward(queue, sign.count(), Slope(layer), Elements<T>(sign),
             Elements<T>(args.output_grads[0]), Elements<T>(args.input_grads[0]));
  });
}

}  // namespace

void RegisterReLUCuda(Registry& registry) {
  registry.AddKernel("ReLU", MakeCudaRow(ForwardRow, BackwardRow));
}

}  // namespace crema
