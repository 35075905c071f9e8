// Bias on the GPU; see bias.cc.
#include "layers/arithmetic/broadcast_axes.h"
#include "layers/gpu_implementation.h"
#include "math/cuda/broadcast.cuh"
#include "math/cuda/copy.cuh"

namespace crema {
namespace {

template <typename T>
void AddBias(const CudaQueue& queue, const BroadcastShape& e, const T* x, const T* bias, T* y) {
  const int64_t middle = e.middle, inner = e.inner;
  ForElements(queue, "Bias", e.count(), [=] CREMA_HOST_DEVICE(int64_t i) {
    y[i] = FromFloat<T>(ToFloat(x[i]) + ToFloat(bias[i / inner % middle]));
  });
}

template <typename T>
void AddGradient(const CudaQueue& queue, const BroadcastShape& e, const T* dy,
                 std::span<std::byte> scratch, T* dbias) {
  AddBroadcastSums(
      queue, e, [=] CREMA_HOST_DEVICE(int64_t i) { return ToFloat(dy[i]); }, scratch, dbias);
}

void ForwardOnGpu(const Layer& layer, const ForwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const ConstTensorView& x = args.inputs[0];
  const ConstTensorView& bias = args.inputs.size() > 1 ? args.inputs[1] : args.learned[0];
  const BroadcastShape e = CoveredSize(layer, x.shape(), bias.shape(), AxesOfBias(layer));
  DispatchCudaFloat(x.dtype(), [&]<typename T>(T) {
    AddBias(queue, e, Elements<T>(x), Elements<T>(bias), Elements<T>(args.outputs[0]));
  });
}

size_t BackwardScratch(const OpDesc& query) {
  const std::vector<LearnedBlob>& learned = query.info.learned;
  const std::span<const BlobSpec> inputs = query.context.inputs;
  const Shape& bias = inputs.size() == 1 ? learned[0].shape : inputs[1].shape;
  return BroadcastSumScratch(
      CoveredSize(query.layer, inputs[0].shape, bias, AxesOfBias(query.layer)));
}

void BackwardOnGpu(const Layer& layer, const BackwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const bool learns = args.inputs.size() == 1;
  const TensorView& dbias = learns ? args.learned_grads[0] : args.input_grads[1];
  const ConstTensorView& dy = args.output_grads[0];
  DispatchCudaFloat(dy.dtype(), [&]<typename T>(T) {
    if (!dbias.empty()) {
      if (!learns) ZeroElements(queue, dbias.count(), Elements<T>(dbias));
      AddGradient(queue, CoveredSize(layer, dy.shape(), dbias.shape(), AxesOfBias(layer)),
                  Elements<T>(dy), args.scratch, Elements<T>(dbias));
    }
    // Last: it may lie where dy lies.
    if (args.input_grads[0].empty()) return;
    CopyElements(queue, dy.count(), Elements<T>(dy), Elements<T>(args.input_grads[0]));
  });
}

}  // namespace

void RegisterBiasCuda(Registry& registry) {
  registry.AddImplementation("Bias", MakeCudaImplementation(ForwardOnGpu, BackwardOnGpu,
                                                            {.backward_scratch = BackwardScratch}));
}

}  // namespace crema
