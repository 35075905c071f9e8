// Cast on the GPU; see cast.cc.
#include "crema.pb.h"
#include "layers/arithmetic/cast.h"
#include "layers/gpu_implementation.h"
#include "math/cuda/copy.cuh"

namespace crema {
namespace {

struct GpuCast {
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    const Type to = layer.param().cast_param().to();
    const T* x = args.x();
    T* y = args.y();
    ForElements(args.queue, "Cast", args.inputs[0].count(), [=] CREMA_HOST_DEVICE(int64_t i) {
      y[i] = FromFloat<T>(CastTo(to, ToFloat(x[i])));
    });
  }
  template <typename T>
  static void Backward(const Layer&, const GpuBackward<T>& args) {
    CopyElements(args.queue, args.output_grads[0].count(), args.dy(), args.dx());
  }
};

}  // namespace

void RegisterCastCuda(Registry& registry) {
  registry.AddImplementation("Cast", CudaImplementation<GpuCast>());
}

}  // namespace crema
