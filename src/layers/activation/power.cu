// Power on the GPU; see power.cc.
#include <cmath>

#include "crema.pb.h"
#include "layers/activation/formulas.h"
#include "layers/gpu_implementation.h"

namespace crema {
namespace {

struct Numbers {
  explicit Numbers(const Layer& layer)
      : power(layer.param().power_param().power()),
        scale(layer.param().power_param().scale()),
        shift(layer.param().power_param().shift()) {}
  bool IsConstant() const { return power * scale == 0; }
  CREMA_HOST_DEVICE float Base(float x) const { return scale * x + shift; }

  float power, scale, shift;
};

template <typename T>
void Fill(const CudaQueue& queue, int64_t count, float value, T* y) {
  ForElements(queue, "Fill", count,
              [=] CREMA_HOST_DEVICE(int64_t i) { y[i] = FromFloat<T>(value); });
}

template <typename T>
void Forward(const CudaQueue& queue, int64_t count, Numbers n, const T* x, T* y) {
  if (n.IsConstant()) {
    return Fill(queue, count, n.power == 0 ? 1 : std::pow(n.shift, n.power), y);
  }
  ForElements(queue, "PowerForward", count, [=] CREMA_HOST_DEVICE(int64_t i) {
    const float base = n.Base(ToFloat(x[i]));
    y[i] = FromFloat<T>(n.power == 1 ? base : RaisedTo(base, n.power));
  });
}

// `x` is null if the power is 1.
template <typename T>
void Backward(const CudaQueue& queue, int64_t count, Numbers n, const T* x, const T* dy, T* dx) {
  if (n.IsConstant()) return Fill(queue, count, 0, dx);
  ForElements(queue, "PowerBackward", count, [=] CREMA_HOST_DEVICE(int64_t i) {
    float slope = n.power * n.scale * ToFloat(dy[i]);
    if (n.power == 2) {
      slope *= n.Base(ToFloat(x[i]));
    } else if (n.power != 1) {
      slope *= RaisedTo(n.Base(ToFloat(x[i])), n.power - 1);
    }
    dx[i] = FromFloat<T>(slope);
  });
}

void ForwardOnGpu(const Layer& layer, const ForwardArgs& args) {
  const ConstTensorView& x = args.inputs[0];
  DispatchCudaFloat(x.dtype(), [&]<typename T>(T) {
    Forward(BoundQueue(args.context), x.count(), Numbers(layer), Elements<T>(x),
            Elements<T>(args.outputs[0]));
  });
}

void BackwardOnGpu(const Layer& layer, const BackwardArgs& args) {
  if (args.input_grads[0].empty()) return;
  const ConstTensorView& dy = args.output_grads[0];
  DispatchCudaFloat(dy.dtype(), [&]<typename T>(T) {
    Backward(BoundQueue(args.context), dy.count(), Numbers(layer), Elements<T>(args.inputs[0]),
             Elements<T>(dy), Elements<T>(args.input_grads[0]));
  });
}

}  // namespace

void RegisterPowerCuda(Registry& registry) {
  registry.AddImplementation("Power", MakeCudaImplementation(ForwardOnGpu, BackwardOnGpu));
}

}  // namespace crema
