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

Support Supports(const OpDesc& query) {
  const bool positions = query.info.outputs.size() > 1;
  if (positions && PlanesOf(query).in() > LargestWhole(query.context.dtype)) {
    return Support::No("the element type cannot hold all positions");
  }
  return SupportsCudaFloats(query);
}

template <bool kLast>
CudaPool PoolOf(const Layer& layer, const ExecContext& context, const PoolPlanes& pool,
                const Shape& input, DType dtype) {
  const int64_t planes = input.count(0, As(layer).FirstSpatial(input));
  CudaPool cuda{BoundQueue(context), dtype, pool, planes, DenseLayout(pool)};
  if (kLast) cuda.lanes = input[1];
  return cuda;
}

template <bool kLast>
void Forward(const Layer& layer, const ForwardArgs& args) {
  const ConstTensorView& x = args.inputs[0];
  const PoolPlanes pool = As(layer).Planes(x.shape(), args.phase);
  const DeviceRandom random(BoundQueue(args.context),
                            RandomStream(args.context.seed(), args.layer_id, args.context.step()));
  PoolOf<kLast>(layer, args.context, pool, x.shape(), x.dtype())
      .Forward(x.raw(), args.outputs[0].raw(), At(args.saved, 0).raw(), At(args.outputs, 1).raw(),
               random);
}

size_t BackwardScratch(const OpDesc& query) {
  const Shape& input = query.context.inputs[0].shape;
  const int64_t planes = input.count(0, As(query.layer).FirstSpatial(input));
  return CudaPool::BackwardScratch(PlanesOf(query), planes);
}

template <bool kLast>
void Backward(const Layer& layer, const BackwardArgs& args) {
  const TensorView& dx = args.input_grads[0];
  if (dx.empty()) return;
  const PoolPlanes pool = As(layer).Planes(dx.shape(), args.phase);
  PoolOf<kLast>(layer, args.context, pool, dx.shape(), dx.dtype())
      .Backward(args.inputs[0].raw(), args.output_grads[0].raw(), dx.raw(),
                pool.TakesOneCell() ? args.saved[0].raw() : nullptr, false, args.scratch.data());
}

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
        type, InChannelsLast(
                  MakeCudaImplementation(Forward<true>, Backward<true>, {.supports = Supports}),
                  IsMaxOrAverage));
    registry.AddImplementation(
        type, MakeCudaImplementation(Forward<false>, Backward<false>,
                                     {.supports = Supports, .backward_scratch = BackwardScratch}));
  }
}

}  // namespace crema
