// Gather and BatchReindex on the GPU; see gather.cc.
#include "layers/arithmetic/gather.h"
#include "layers/arithmetic/indices.cuh"
#include "layers/gpu_implementation.h"
#include "math/cuda/copy.cuh"

namespace crema {
namespace {

GatherSize SizesOf(const Layer& layer, const Shape& x, const ConstTensorView& index) {
  return static_cast<const GatherLayer&>(layer).SizesOf(x, index.count());
}

void ForwardOnGpu(const Layer& layer, const ForwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const ConstTensorView& x = args.inputs[0];
  const ConstTensorView& index = args.inputs[1];
  DispatchCudaFloat(x.dtype(), [&]<typename T>(T) {
    GatherRows<T>(queue, SizesOf(layer, x.shape(), index), Elements<T>(index), Elements<T>(x),
                  nullptr, Elements<T>(args.outputs[0]));
  });
}

void BackwardOnGpu(const Layer& layer, const BackwardArgs& args) {
  const TensorView& dx = args.input_grads[0];
  if (dx.empty()) return;
  const CudaQueue& queue = BoundQueue(args.context);
  const ConstTensorView& index = args.inputs[1];
  DispatchCudaFloat(dx.dtype(), [&]<typename T>(T) {
    ZeroElements(queue, dx.count(), Elements<T>(dx));
    ScatterAddRows(queue, SizesOf(layer, dx.shape(), index), Elements<T>(index),
                   Elements<T>(args.output_grads[0]), args.scratch, Elements<T>(dx));
  });
}

size_t BackwardScratch(const OpDesc& query) {
  return ScatterScratch(query.context.inputs[1].shape.count());
}

ImplementationPtr MakeImplementation() {
  return MakeCudaImplementation(ForwardOnGpu, BackwardOnGpu, {.backward_scratch = BackwardScratch});
}

}  // namespace

void RegisterGatherCuda(Registry& registry) {
  registry.AddImplementation("Gather", MakeImplementation());
  registry.AddImplementation("BatchReindex", MakeImplementation());
}

}  // namespace crema
