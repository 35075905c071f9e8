// Correlation on the GPU; see correlation.cc.
#include "layers/arithmetic/correlation.h"
#include "layers/gpu_implementation.h"

namespace crema {
namespace {

template <typename T>
void Correlate(const CudaQueue& queue, const CorrelationSums& of, int64_t count, const T* a,
               const T* b, T* y) {
  const CorrelationSums s = of;
  ForElements(queue, "Correlation", count, [=] CREMA_HOST_DEVICE(int64_t i) {
    y[i] = FromFloat<T>(static_cast<float>(s.Value(a, b, i)));
  });
}

template <typename T>
void GradientOf(const CudaQueue& queue, const CorrelationSums& of, int64_t count, bool second,
                const T* own, const T* other, const T* dy, T* d) {
  const CorrelationSums s = of;
  ForElements(queue, "CorrelationGradient", count, [=] CREMA_HOST_DEVICE(int64_t i) {
    d[i] = FromFloat<T>(static_cast<float>(s.Gradient(own, other, dy, second, i)));
  });
}

struct GpuCorrelation {
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    const CorrelationSums s(layer, args.inputs[0].shape(), args.inputs[1].shape());
    Correlate(args.queue, s, args.outputs[0].count(), args.x(), args.x(1), args.y());
  }

  template <typename T>
  static void Backward(const Layer& layer, const GpuBackward<T>& args) {
    const CorrelationSums s(layer, args.inputs[0].shape(), args.inputs[1].shape());
    for (size_t k = 0; k < 2; ++k) {
      if (args.dx(k) == nullptr) continue;
      GradientOf(args.queue, s, args.input_grads[k].count(), k == 1, args.x(k), args.x(1 - k),
                 args.dy(), args.dx(k));
    }
  }
};

}  // namespace

void RegisterCorrelationCuda(Registry& registry) {
  registry.AddImplementation("Correlation", CudaImplementation<GpuCorrelation>());
}

}  // namespace crema
