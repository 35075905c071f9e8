// ShuffleChannel and Reorg on the GPU; see channel_moves.h.
#include "layers/gpu_row.h"
#include "layers/shape/channel_moves.h"
#include "layers/shape/strided_copy.cuh"

namespace crema {
namespace {

void ForwardRow(const Layer& layer, const ForwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const ConstTensorView& x = args.inputs[0];
  const StridedBlock block = static_cast<const ElementMove&>(layer).Move(x.shape());
  DispatchCudaFloat(x.dtype(), [&]<typename T>(T) {
    CopyStrided(queue, block, Elements<T>(x), Elements<T>(args.outputs[0]));
  });
}

void BackwardRow(const Layer& layer, const BackwardArgs& args) {
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
  registry.AddKernel("ShuffleChannel", MakeCudaRow(ForwardRow, BackwardRow));
}

void RegisterReorgCuda(Registry& registry) {
  registry.AddKernel("Reorg", MakeCudaRow(ForwardRow, BackwardRow));
}

}  // namespace crema
