// Gather and BatchReindex on the GPU; see gather.cc and batch_reindex.cc.
#include "layers/arithmetic/indices.cuh"
#include "layers/gpu_implementation.h"
#include "layers/layer_axis.h"
#include "math/cuda/copy.cuh"

namespace crema {
namespace {

using SizesOf = GatherSize (*)(const Layer& layer, const Shape& x, int64_t picked);

GatherSize SizeOfReindex(const Layer&, const Shape& x, int64_t picked) {
  return {1, x[0], picked, x.count(1)};
}

GatherSize SizeOfGather(const Layer& layer, const Shape& x, int64_t picked) {
  const int axis = LayerAxis(layer, x, layer.param().gather_param().axis(), "gather_param.axis");
  return {x.count(0, axis), x[axis], picked, x.count(axis + 1)};
}

template <SizesOf kSizes>
void ForwardOnGpu(const Layer& layer, const ForwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const ConstTensorView& x = args.inputs[0];
  const ConstTensorView& index = args.inputs[1];
  DispatchCudaFloat(x.dtype(), [&]<typename T>(T) {
    GatherRows<T>(queue, kSizes(layer, x.shape(), index.count()), Elements<T>(index),
                  Elements<T>(x), nullptr, Elements<T>(args.outputs[0]));
  });
}

template <SizesOf kSizes>
void BackwardOnGpu(const Layer& layer, const BackwardArgs& args) {
  const TensorView& dx = args.input_grads[0];
  if (dx.empty()) return;
  const CudaQueue& queue = BoundQueue(args.context);
  const ConstTensorView& index = args.inputs[1];
  DispatchCudaFloat(dx.dtype(), [&]<typename T>(T) {
    ZeroElements(queue, dx.count(), Elements<T>(dx));
    ScatterAddRows(queue, kSizes(layer, dx.shape(), index.count()), Elements<T>(index),
                   Elements<T>(args.output_grads[0]), args.scratch, Elements<T>(dx));
  });
}

size_t BackwardScratch(const OpDesc& query) {
  return ScatterScratch(query.context.inputs[1].shape.count());
}

template <SizesOf kSizes>
ImplementationPtr MakeImplementation() {
  return MakeCudaImplementation(ForwardOnGpu<kSizes>, BackwardOnGpu<kSizes>,
                                {.backward_scratch = BackwardScratch});
}

}  // namespace

void RegisterGatherCuda(Registry& registry) {
  registry.AddImplementation("Gather", MakeImplementation<SizeOfGather>());
}

void RegisterBatchReindexCuda(Registry& registry) {
  registry.AddImplementation("BatchReindex", MakeImplementation<SizeOfReindex>());
}

}  // namespace crema
