// Gather and BatchReindex on the GPU; see gather.cc.
#include "layers/arithmetic/gather.h"
#include "layers/arithmetic/indices.cuh"
#include "layers/gpu_implementation.h"
#include "math/cuda/copy.cuh"

namespace crema {
namespace {

struct GpuGather {
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    const GatherSize e = static_cast<const GatherLayer&>(layer).SizesOf(args.inputs[0].shape(),
                                                                        args.inputs[1].count());
    GatherRows<T>(args.queue, e, args.x(1), args.x(), nullptr, args.y());
  }
  template <typename T>
  static void Backward(const Layer& layer, const GpuBackward<T>& args) {
    const Shape& shape = args.input_grads[0].shape();
    const GatherSize e =
        static_cast<const GatherLayer&>(layer).SizesOf(shape, args.inputs[1].count());
    ZeroElements(args.queue, shape.count(), args.dx());
    ScatterAddRows(args.queue, e, args.x(1), args.dy(), args.scratch, args.dx());
  }
  static size_t BackwardScratch(const OpDesc& query) {
    return ScatterScratch(query.context.inputs[1].shape.count());
  }
};

}  // namespace

void RegisterGatherCuda(Registry& registry) {
  for (const char* type : {"Gather", "BatchReindex"}) {
    registry.AddImplementation(type, CudaImplementation<GpuGather>());
  }
}

}  // namespace crema
