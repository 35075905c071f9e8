// Gain on the GPU; see gain.cc.
#include "crema.pb.h"
#include "layers/gpu_implementation.h"
#include "layers/layer_axis.h"

namespace crema {
namespace {

// Channels, and elements after each.
struct GainSize {
  GainSize(const Layer& layer, const Shape& x) : count(x.count()) {
    const int axis = LayerAxis(layer, x, layer.param().scale_param().axis(), "scale_param.axis");
    channels = x[axis];
    inner = x.count(axis + 1);
  }
  int64_t count, channels, inner;
};

template <typename T>
void Multiply(const CudaQueue& queue, const GainSize& s, const T* x, const T* gain, T* y) {
  ForElements(queue, "Gain", s.count, [=] CREMA_HOST_DEVICE(int64_t i) {
    y[i] = FromFloat<T>(ToFloat(x[i]) * ToFloat(gain[i / s.inner % s.channels]));
  });
}

struct GpuGain {
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    Multiply(args.queue, GainSize(layer, args.inputs[0].shape()), args.x(), args.w(), args.y());
  }

  template <typename T>
  static void Backward(const Layer& layer, const GpuBackward<T>& args) {
    const GainSize s(layer, args.output_grads[0].shape());
    const T *x = args.x(), *dy = args.dy();
    if (args.dx() != nullptr) Multiply(args.queue, s, dy, args.w(), args.dx());
    T* dg = args.dw();
    if (dg == nullptr) return;
    // One thread for each channel, which adds in a fixed order.
    ForElements(args.queue, "GainGradient", s.channels, [=] CREMA_HOST_DEVICE(int64_t c) {
      float sum = 0;
      for (int64_t row = c; row * s.inner < s.count; row += s.channels) {
        for (int64_t i = row * s.inner; i < (row + 1) * s.inner; ++i) {
          sum += ToFloat(dy[i]) * ToFloat(x[i]);
        }
      }
      dg[c] = FromFloat<T>(ToFloat(dg[c]) + sum);
    });
  }
};

}  // namespace

void RegisterGainCuda(Registry& registry) {
  registry.AddImplementation("Gain", CudaImplementation<GpuGain>());
}

}  // namespace crema
