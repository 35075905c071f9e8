// Pooling and Pooling3D on the GPU; see pooling.cc.
#include "layers/channels_last_implementation.h"
#include "layers/gpu_implementation.h"
#include "layers/pooling/pool_cuda.h"
#include "layers/pooling/pooling.h"
#include "layers/whole_numbers.h"

namespace crema {
namespace {

const Pooling& As(const Layer& layer) { return static_cast<const Pooling&>(layer); }

PoolPlanes PlanesOf(const OpDesc& query) {
  return As(query.layer).Planes(query.context.inputs[0].shape, query.context.phase);
}

template <bool kLast>
struct GpuPooling {
  static CudaPool PoolOf(const Layer& layer, const CudaQueue& queue, const PoolPlanes& pool,
                         const ConstTensorView& input) {
    const Shape& shape = input.shape();
    const int64_t planes = shape.count(0, As(layer).FirstSpatial(shape));
    CudaPool cuda{queue, input.dtype(), pool, planes, DenseLayout(pool)};
    if (kLast) cuda.lanes = shape[1];
    return cuda;
  }

  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    const PoolPlanes pool = As(layer).Planes(args.inputs[0].shape(), args.phase);
    const RandomStream stream(args.context.seed(), args.layer_id, args.context.step());
    PoolOf(layer, args.queue, pool, args.inputs[0])
        .Forward(args.x(), args.y(), args.template Saved<void>(), args.y(1),
                 DeviceRandom(args.queue, stream));
  }

  template <typename T>
  static void Backward(const Layer& layer, const GpuBackward<T>& args) {
    const TensorView& dx = args.input_grads[0];
    const PoolPlanes pool = As(layer).Planes(dx.shape(), args.phase);
    PoolOf(layer, args.queue, pool, dx)
        .Backward(args.x(), args.dy(), dx.raw(),
                  pool.TakesOneCell() ? args.template Saved<void>() : nullptr, false,
                  args.scratch.data());
  }

  static Support Supports(const OpDesc& query) {
    const bool positions = query.info.outputs.size() > 1;
    if (positions && PlanesOf(query).in() > LargestWhole(query.context.dtype)) {
      return Support::No("the element type cannot hold all positions");
    }
    return SupportsCudaFloats(query);
  }

  static size_t BackwardScratch(const OpDesc& query) {
    if (kLast) return 0;
    const Shape& input = query.context.inputs[0].shape;
    return CudaPool::BackwardScratch(PlanesOf(query),
                                     input.count(0, As(query.layer).FirstSpatial(input)));
  }
};

// The other methods draw or read by positions in consecutive planes.
Support IsMaxOrAverage(const OpDesc& query) {
  const PoolPlanes::Method method = PlanesOf(query).method();
  if (method != PoolPlanes::Method::kMax && method != PoolPlanes::Method::kAverage) {
    return Support::No("is for MAX and AVE");
  }
  if (query.info.outputs.size() > 1) return Support::No("gives no positions");
  if (As(query.layer).FirstSpatial(query.context.inputs[0].shape) == 2) return {};
  return Support::No("is for channels on axis 1");
}

}  // namespace

void RegisterPoolingCuda(Registry& registry) {
  for (const char* type : {"Pooling", "Pooling3D"}) {
    registry.AddImplementation(
        type, InChannelsLast(CudaImplementation<GpuPooling<true>>(), IsMaxOrAverage));
    registry.AddImplementation(type, CudaImplementation<GpuPooling<false>>());
  }
}

}  // namespace crema
