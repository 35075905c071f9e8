// Embed on the GPU; see embed.cc.
#include "crema.pb.h"
#include "layers/arithmetic/indices.cuh"
#include "layers/gpu_implementation.h"
#include "math/cuda/sums.cuh"

namespace crema {
namespace {

GatherSize SizesOf(const Layer& layer, int64_t picked) {
  const EmbedParameter& embed = layer.param().embed_param();
  return {1, embed.input_dim(), picked, embed.num_output()};
}

struct GpuEmbed {
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    GatherRows(args.queue, SizesOf(layer, args.inputs[0].count()), args.x(), args.w(), args.w(1),
               args.y());
  }

  template <typename T>
  static void Backward(const Layer& layer, const GpuBackward<T>& args) {
    const GatherSize e = SizesOf(layer, args.inputs[0].count());
    if (args.dw() != nullptr) {
      ScatterAddRows(args.queue, e, args.x(), args.dy(), args.scratch, args.dw());
    }
    if (args.dw(1) != nullptr) {
      AddColumnSums(args.queue, e.picked, e.inner, e.inner, args.dy(), args.dw(1));
    }
  }

  static size_t BackwardScratch(const OpDesc& query) {
    return ScatterScratch(query.context.inputs[0].shape.count());
  }
};

}  // namespace

void RegisterEmbedCuda(Registry& registry) {
  registry.AddImplementation("Embed", CudaImplementation<GpuEmbed>());
}

}  // namespace crema
