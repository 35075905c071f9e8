// Threshold on the GPU; see threshold.cc.
#include "crema.pb.h"
#include "layers/gpu_implementation.h"

namespace crema {
namespace {

struct GpuThreshold {
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    const float threshold = layer.param().threshold_param().threshold();
    const T* x = args.x();
    T* y = args.y();
    ForElements(args.queue, "ThresholdForward", args.inputs[0].count(),
                [=] CREMA_HOST_DEVICE(int64_t i) {
                  y[i] = FromFloat<T>(ToFloat(x[i]) > threshold ? 1.0F : 0.0F);
                });
  }
};

}  // namespace

void RegisterThresholdCuda(Registry& registry) {
  registry.AddImplementation("Threshold", CudaImplementation<GpuThreshold>());
}

}  // namespace crema
