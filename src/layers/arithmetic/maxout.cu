// Maxout on the GPU; see maxout.cc.
#include "layers/arithmetic/maxout.h"
#include "layers/gpu_implementation.h"

namespace crema {
namespace {

struct GpuMaxout {
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    const MaxoutSize size(layer, args.inputs[0].shape());
    const T* x = args.x();
    T* y = args.y();
    ForElements(args.queue, "Maxout", args.outputs[0].count(),
                [=] CREMA_HOST_DEVICE(int64_t i) { y[i] = x[size.Largest(x, i)]; });
  }

  template <typename T>
  static void Backward(const Layer& layer, const GpuBackward<T>& args) {
    const MaxoutSize size(layer, args.inputs[0].shape());
    const T *x = args.x(), *dy = args.dy();
    T* dx = args.dx();
    ForElements(args.queue, "MaxoutGradient", args.output_grads[0].count(),
                [=] CREMA_HOST_DEVICE(int64_t i) { size.Backward(x, dy, i, dx); });
  }
};

}  // namespace

void RegisterMaxoutCuda(Registry& registry) {
  registry.AddImplementation("Maxout", CudaImplementation<GpuMaxout>());
}

}  // namespace crema
