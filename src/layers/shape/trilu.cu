// Trilu on the GPU; see trilu.cc.
#include "layers/gpu_implementation.h"
#include "layers/shape/trilu.h"

namespace crema {
namespace {

template <typename T>
void Cut(const CudaQueue& queue, const Triangle& given, int64_t count, const T* x, T* y) {
  const Triangle triangle = given;
  ForElements(queue, "Trilu", count, [=] CREMA_HOST_DEVICE(int64_t i) {
    const int64_t border = triangle.Border(i / triangle.columns % triangle.rows);
    const bool after = i % triangle.columns >= border;
    y[i] = after == triangle.upper ? x[i] : FromFloat<T>(0);
  });
}

struct GpuTrilu {
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    const Shape& x = args.inputs[0].shape();
    Cut(args.queue, Triangle(layer, x), x.count(), args.x(), args.y());
  }
  template <typename T>
  static void Backward(const Layer& layer, const GpuBackward<T>& args) {
    const Shape& dx = args.input_grads[0].shape();
    Cut(args.queue, Triangle(layer, dx), dx.count(), args.dy(), args.dx());
  }
};

}  // namespace

void RegisterTriluCuda(Registry& registry) {
  registry.AddImplementation("Trilu", CudaImplementation<GpuTrilu>());
}

}  // namespace crema
