// UnPooling on the GPU; see unpooling.cc.
#include "crema.pb.h"
#include "layers/gpu_implementation.h"
#include "layers/pooling/pool_cuda.h"
#include "layers/sampling/mask_unpool.cuh"
#include "layers/sampling/unpool_window.h"

namespace crema {
namespace {

UnPoolingParameter::UnPoolMethod MethodOf(const Layer& layer) {
  return layer.param().unpooling_param().unpool();
}
bool IsMasked(const Layer& layer) { return MethodOf(layer) == UnPoolingParameter::MAX; }

// Returns the AVE pooling whose gradient is the AVE method; TILE uses it without the division.
PoolPlanes PlanesOf(const Layer& layer, const Shape& input) {
  const PoolWindow window = UnpoolWindow(layer, input);
  const PoolWindowNd axes{.size = 2, .axes = {window.h, window.w}};
  return {axes, PoolPlanes::Method::kAverage, false};
}
CudaPool PoolOf(const Layer& layer, const CudaQueue& queue, const PoolPlanes& pool,
                const Shape& input, DType dtype) {
  return {queue,
          dtype,
          pool,
          input.count(0, 2),
          DenseLayout(pool),
          MethodOf(layer) == UnPoolingParameter::AVE};
}

struct GpuUnPooling {
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    if (IsMasked(layer)) return GpuMaskUnpool::Forward(layer, args);
    const ConstTensorView& x = args.inputs[0];
    const PoolPlanes pool = PlanesOf(layer, x.shape());
    PoolOf(layer, args.queue, pool, x.shape(), x.dtype())
        .Backward(nullptr, x.raw(), args.y(), nullptr, false, nullptr);
  }
  template <typename T>
  static void Backward(const Layer& layer, const GpuBackward<T>& args) {
    if (IsMasked(layer)) return GpuMaskUnpool::Backward(layer, args);
    const TensorView& dx = args.input_grads[0];
    const PoolPlanes pool = PlanesOf(layer, dx.shape());
    const DeviceRandom unused(args.queue, RandomStream(0, 0));
    PoolOf(layer, args.queue, pool, dx.shape(), dx.dtype())
        .Forward(args.dy(), dx.raw(), nullptr, nullptr, unused);
  }
  static Support Supports(const OpDesc& query) {
    return IsMasked(query.layer) ? GpuMaskUnpool::Supports(query) : SupportsCudaFloats(query);
  }
  static size_t Scratch(const OpDesc& query) {
    return IsMasked(query.layer) ? GpuMaskUnpool::Scratch(query) : 0;
  }
};

}  // namespace

void RegisterUnPoolingCuda(Registry& registry) {
  registry.AddImplementation("UnPooling", CudaImplementation<GpuUnPooling>());
}

}  // namespace crema
