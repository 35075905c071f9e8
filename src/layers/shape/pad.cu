// Pad on the GPU; see pad.cc.
#include "crema.pb.h"
#include "layers/gpu_implementation.h"
#include "layers/shape/pad.h"

namespace crema {
namespace {

struct GpuPad {
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    const PadAxes axes(layer, args.inputs[0].shape());
    const float constant = layer.param().pad_param().value();
    const T* x = args.x();
    T* y = args.y();
    ForElements(args.queue, "Pad", args.outputs[0].count(), [=] CREMA_HOST_DEVICE(int64_t i) {
      const int64_t row = axes.RowSource(i / axes.OutRow());
      const int64_t element = axes.Source(axes.size - 1, i % axes.OutRow());
      y[i] = row < 0 || element < 0 ? FromFloat<T>(constant) : x[row + element];
    });
  }

  template <typename T>
  static void Backward(const Layer& layer, const GpuBackward<T>& args) {
    const PadAxes axes(layer, args.input_grads[0].shape());
    const T* dy = args.dy();
    T* dx = args.dx();
    ForElements(args.queue, "PadGradient", args.input_grads[0].count(),
                [=] CREMA_HOST_DEVICE(int64_t i) {
                  int64_t copies = 1;
                  int64_t element = i;
                  for (int a = axes.size - 1; a >= 0; --a) {
                    copies *= axes.Copies(a, element % axes.in[a]);
                    element /= axes.in[a];
                  }
                  float sum = 0;
                  for (int64_t copy = 0; copy < copies; ++copy) {
                    int64_t rest = copy, place = 0, step = 1;
                    element = i;
                    for (int a = axes.size - 1; a >= 0; --a) {
                      const int64_t own = element % axes.in[a], each = axes.Copies(a, own);
                      place += axes.Copy(a, own, rest % each) * step;
                      step *= axes.out[a];
                      rest /= each;
                      element /= axes.in[a];
                    }
                    sum += ToFloat(dy[place]);
                  }
                  dx[i] = FromFloat<T>(sum);
                });
  }
};

}  // namespace

void RegisterPadCuda(Registry& registry) {
  registry.AddImplementation("Pad", CudaImplementation<GpuPad>());
}

}  // namespace crema
