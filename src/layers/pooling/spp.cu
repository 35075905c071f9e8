// SPP on the GPU; see spp.cc.
#include <algorithm>

#include "layers/gpu_implementation.h"
#include "layers/pooling/pool_cuda.h"
#include "layers/pooling/spp_levels.h"

namespace crema {
namespace {

// Returns the pooling of one level; the output has `item` values per sample.
CudaPool PoolOf(const ExecContext& context, DType dtype, const Shape& input, int64_t item,
                const SppLevel& level) {
  const PoolLayout layout{
      .channels = input[1], .item = item, .first = level.first, .out = level.pool.out()};
  return {BoundQueue(context), dtype, level.pool, input.count(0, 2), layout};
}

void Forward(const Layer& layer, const ForwardArgs& args) {
  const ConstTensorView& x = args.inputs[0];
  const TensorView& y = args.outputs[0];
  const SppLevels levels = MakeSppLevels(layer, x.shape(), args.phase);
  const DeviceRandom random(BoundQueue(args.context),
                            RandomStream(args.context.seed(), args.layer_id, args.context.step()));
  for (size_t i = 0; i < levels.size(); ++i) {
    PoolOf(args.context, x.dtype(), x.shape(), y.shape().count(1), levels[i])
        .Forward(x.raw(), y.raw(), At(args.saved, i).raw(), nullptr, random);
  }
}

// Returns the largest of the levels, which use the same memory in turn.
size_t BackwardScratch(const OpDesc& query) {
  const Shape& input = query.context.inputs[0].shape;
  const SppLevels levels = MakeSppLevels(query.layer, input, query.context.phase);
  size_t bytes = 0;
  for (size_t i = 0; i < levels.size(); ++i) {
    bytes = std::max(bytes, CudaPool::BackwardScratch(levels[i].pool, input.count(0, 2)));
  }
  return bytes;
}

void Backward(const Layer& layer, const BackwardArgs& args) {
  const TensorView& dx = args.input_grads[0];
  if (dx.empty()) return;
  const ConstTensorView& dy = args.output_grads[0];
  const SppLevels levels = MakeSppLevels(layer, dx.shape(), args.phase);
  for (size_t i = 0; i < levels.size(); ++i) {
    PoolOf(args.context, dx.dtype(), dx.shape(), dy.shape().count(1), levels[i])
        .Backward(args.inputs[0].raw(), dy.raw(), dx.raw(),
                  i < args.saved.size() ? args.saved[i].raw() : nullptr, i > 0,
                  args.scratch.data());
  }
}

}  // namespace

void RegisterSPPCuda(Registry& registry) {
  registry.AddImplementation(
      "SPP", MakeCudaImplementation(Forward, Backward, {.backward_scratch = BackwardScratch}));
}

}  // namespace crema
