// SPP on the GPU; see spp.cc.
#include <algorithm>

#include "layers/gpu_implementation.h"
#include "layers/pooling/pool_cuda.h"
#include "layers/pooling/spp_levels.h"

namespace crema {
namespace {

struct GpuSpp {
  // Returns the pooling of one level; the output has `item` values per sample.
  static CudaPool PoolOf(const CudaQueue& queue, const ConstTensorView& input, int64_t item,
                         const SppLevel& level) {
    const PoolLayout layout{
        .channels = input.shape()[1], .item = item, .first = level.first, .out = level.pool.out()};
    return {queue, input.dtype(), level.pool, input.shape().count(0, 2), layout};
  }

  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    const ConstTensorView& x = args.inputs[0];
    const SppLevels levels = MakeSppLevels(layer, x.shape(), args.phase);
    const DeviceRandom random(
        args.queue, RandomStream(args.context.seed(), args.layer_id, args.context.step()));
    for (size_t i = 0; i < levels.size(); ++i) {
      PoolOf(args.queue, x, args.outputs[0].shape().count(1), levels[i])
          .Forward(x.raw(), args.y(), args.template Saved<void>(i), nullptr, random);
    }
  }

  template <typename T>
  static void Backward(const Layer& layer, const GpuBackward<T>& args) {
    const TensorView& dx = args.input_grads[0];
    const SppLevels levels = MakeSppLevels(layer, dx.shape(), args.phase);
    for (size_t i = 0; i < levels.size(); ++i) {
      PoolOf(args.queue, dx, args.output_grads[0].shape().count(1), levels[i])
          .Backward(args.x(), args.dy(), dx.raw(), args.template Saved<void>(i), i > 0,
                    args.scratch.data());
    }
  }

  // Returns the largest of the levels, which use the same memory in turn.
  static size_t BackwardScratch(const OpDesc& query) {
    const Shape& input = query.context.inputs[0].shape;
    const SppLevels levels = MakeSppLevels(query.layer, input, query.context.phase);
    size_t bytes = 0;
    for (size_t i = 0; i < levels.size(); ++i) {
      bytes = std::max(bytes, CudaPool::BackwardScratch(levels[i].pool, input.count(0, 2)));
    }
    return bytes;
  }
};

}  // namespace

void RegisterSPPCuda(Registry& registry) {
  registry.AddImplementation("SPP", CudaImplementation<GpuSpp>());
}

}  // namespace crema
