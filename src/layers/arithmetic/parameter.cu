// Parameter on the GPU; see parameter.cc.
#include "layers/gpu_implementation.h"
#include "math/cuda/copy.cuh"

namespace crema {
namespace {

struct GpuParameter {
  template <typename T>
  static void Forward(const Layer&, const GpuForward<T>& args) {
    CopyElements(args.queue, args.outputs[0].count(), args.w(), args.y());
  }
  template <typename T>
  static void Backward(const Layer&, const GpuBackward<T>& args) {
    const T* dy = args.dy();
    T* sum = args.dw();
    ForElements(args.queue, "ParameterGradient", args.output_grads[0].count(),
                [=] CREMA_HOST_DEVICE(int64_t i) {
                  sum[i] = FromFloat<T>(ToFloat(sum[i]) + ToFloat(dy[i]));
                });
  }
};

}  // namespace

void RegisterParameterCuda(Registry& registry) {
  registry.AddImplementation("Parameter", CudaImplementation<GpuParameter>());
}

}  // namespace crema
