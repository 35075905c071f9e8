// ShuffleChannel and Reorg on the GPU; see channel_moves.h.
#include "layers/gpu_implementation.h"
#include "layers/shape/channel_moves.h"
#include "layers/shape/strided_copy.cuh"

namespace crema {
namespace {

void ForwardOnGpu(const Layer& layer, const ForwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const ConstTensorView& x = args.inputs[0];
  const StridedBlock block = static_cast<const ElementMove&>(layer).Move(x.shape());
  DispatchCudaFloat(x.dtype(), [&]<typename T>(T) {
    CopyStrided(queue, block, Elements<T>(x), Elements<T>(args.outputs[0]));
  });
}

void BackwardOnGpu(const Layer& layer, const BackwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const ConstTensorView& dy = args.output_grads[0];
  const StridedBlock block =
      static_cast<const ElementMove&>(layer).Move(args.inputs[0].shape()).Reversed();
  DispatchCudaFloat(dy.dtype(), [&]<typename T>(T) {
    CopyStrided(queue, block, Elements<T>(dy), Elements<T>(args.input_grads[0]));
  });
}

}  // namespace

void RegisterShuffleChannelCuda(Registry& registry) {
  registry.AddImplementation("ShuffleChannel", MakeCudaImplementation(ForwardOnGpu, BackwardOnGpu));
}

void RegisterReorgCuda(Registry& registry) {
  registry.AddImplementation("Reorg", MakeCudaImplementation(ForwardOnGpu, BackwardOnGpu));
}

}  // namespace crema
