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

template <typename T>
void AddBiasGradient(const CudaQueue& queue, const GatherSize& e, const T* dy, T* gradient) {
  const int64_t columns = e.inner;
  AddColumnSums(
      queue, e.picked, columns,
      [=] CREMA_HOST_DEVICE(int64_t r, int64_t c) { return ToFloat(dy[r * columns + c]); },
      gradient);
}

void ForwardOnGpu(const Layer& layer, const ForwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const ConstTensorView& index = args.inputs[0];
  DispatchCudaFloat(index.dtype(), [&]<typename T>(T) {
    const T* bias = args.learned.size() > 1 ? Elements<T>(args.learned[1]) : nullptr;
    GatherRows(queue, SizesOf(layer, index.count()), Elements<T>(index),
               Elements<T>(args.learned[0]), bias, Elements<T>(args.outputs[0]));
  });
}

void BackwardOnGpu(const Layer& layer, const BackwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const ConstTensorView& index = args.inputs[0];
  const GatherSize e = SizesOf(layer, index.count());
  DispatchCudaFloat(index.dtype(), [&]<typename T>(T) {
    const T* dy = Elements<T>(args.output_grads[0]);
    if (const TensorView& dweight = args.learned_grads[0]; !dweight.empty()) {
      ScatterAddRows(queue, e, Elements<T>(index), dy, args.scratch, Elements<T>(dweight));
    }
    if (const TensorView dbias = At(args.learned_grads, 1); !dbias.empty()) {
      AddBiasGradient(queue, e, dy, Elements<T>(dbias));
    }
  });
}

size_t BackwardScratch(const OpDesc& query) {
  return ScatterScratch(query.context.inputs[0].shape.count());
}

}  // namespace

void RegisterEmbedCuda(Registry& registry) {
  registry.AddImplementation(
      "Embed",
      MakeCudaImplementation(ForwardOnGpu, BackwardOnGpu, {.backward_scratch = BackwardScratch}));
}

}  // namespace crema
