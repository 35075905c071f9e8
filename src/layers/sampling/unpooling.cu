// UnPooling on the GPU; see unpooling.cc.
#include "crema.pb.h"
#include "layers/gpu_implementation.h"
#include "layers/pooling/pool_cuda.h"
#include "layers/sampling/mask_unpool_cuda.h"
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
CudaPool PoolOf(const Layer& layer, const ExecContext& context, const PoolPlanes& pool,
                const Shape& input, DType dtype) {
  return {BoundQueue(context),
          dtype,
          pool,
          input.count(0, 2),
          DenseLayout(pool),
          MethodOf(layer) == UnPoolingParameter::AVE};
}

Support Supports(const OpDesc& query) {
  return IsMasked(query.layer) ? SupportsCudaMaskUnpool(query) : SupportsCudaFloats(query);
}

size_t Scratch(const OpDesc& query) {
  return IsMasked(query.layer) ? CudaMaskUnpoolScratch(query) : 0;
}

void Forward(const Layer& layer, const ForwardArgs& args) {
  if (IsMasked(layer)) return ForwardCudaMaskUnpool(args);
  const ConstTensorView& x = args.inputs[0];
  const PoolPlanes pool = PlanesOf(layer, x.shape());
  PoolOf(layer, args.context, pool, x.shape(), x.dtype())
      .Backward(nullptr, x.raw(), args.outputs[0].raw(), nullptr, false, nullptr);
}

void Backward(const Layer& layer, const BackwardArgs& args) {
  if (IsMasked(layer)) return BackwardCudaMaskUnpool(args);
  const TensorView& dx = args.input_grads[0];
  if (dx.empty()) return;
  const PoolPlanes pool = PlanesOf(layer, dx.shape());
  const DeviceRandom unused(BoundQueue(args.context), RandomStream(0, 0));
  PoolOf(layer, args.context, pool, dx.shape(), dx.dtype())
      .Forward(args.output_grads[0].raw(), dx.raw(), nullptr, nullptr, unused);
}

}  // namespace

void RegisterUnPoolingCuda(Registry& registry) {
  registry.AddImplementation("UnPooling", MakeCudaImplementation(Forward, Backward,
                                                                 {.supports = Supports,
                                                                  .forward_scratch = Scratch,
                                                                  .backward_scratch = Scratch}));
}

}  // namespace crema
