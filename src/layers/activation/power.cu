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

struct GpuPower {
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    const Numbers n(layer);
    const int64_t count = args.inputs[0].count();
    const T* x = args.x();
    T* y = args.y();
    if (n.IsConstant()) {
      return Fill(args.queue, count, n.power == 0 ? 1 : std::pow(n.shift, n.power), y);
    }
    ForElements(args.queue, "PowerForward", count, [=] CREMA_HOST_DEVICE(int64_t i) {
      const float base = n.Base(ToFloat(x[i]));
      y[i] = FromFloat<T>(n.power == 1 ? base : RaisedTo(base, n.power));
    });
  }

  template <typename T>
  static void Backward(const Layer& layer, const GpuBackward<T>& args) {
    const Numbers n(layer);
    const int64_t count = args.output_grads[0].count();
    const T* x = args.x();  // null if the power is 1
    const T* dy = args.dy();
    T* dx = args.dx();
    if (n.IsConstant()) return Fill(args.queue, count, 0, dx);
    ForElements(args.queue, "PowerBackward", count, [=] CREMA_HOST_DEVICE(int64_t i) {
      float slope = n.power * n.scale * ToFloat(dy[i]);
      if (n.power == 2) {
        slope *= n.Base(ToFloat(x[i]));
      } else if (n.power != 1) {
        slope *= RaisedTo(n.Base(ToFloat(x[i])), n.power - 1);
      }
      dx[i] = FromFloat<T>(slope);
    });
  }
};

}  // namespace

void RegisterPowerCuda(Registry& registry) {
  registry.AddImplementation("Power", CudaImplementation<GpuPower>());
}

}  // namespace crema
