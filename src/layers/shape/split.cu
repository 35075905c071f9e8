// Split on the GPU; see split.cc.
#include "core/error.h"
#include "layers/channels_last_implementation.h"
#include "layers/gpu_implementation.h"
#include "math/cuda/copy.cuh"
#include "math/cuda/sum_up.cuh"

namespace crema {
namespace {

// dx = the sum of the nonempty gradients. dx may share memory with one of them, which is therefore
// added first.
template <typename T>
void SumGradients(const CudaQueue& queue, std::span<const ConstTensorView> grads, int64_t count,
                  T* dx) {
  Operands<T> group{};
  const T* start = nullptr;
  const auto flush = [&] {
    if (group.count > 0) SumUp(queue, count, group, start, dx);
    if (group.count > 0) start = dx;
    group.count = 0;
  };
  for (bool own : {true, false}) {
    for (const ConstTensorView& grad : grads) {
      if (grad.empty() || (grad.raw() == dx) != own) continue;
      group.x[group.count] = Elements<T>(grad);
      group.factor[group.count++] = 1;
      if (group.count == Operands<T>::kMost) flush();
    }
  }
  flush();
  if (start == nullptr) ZeroElements(queue, count, dx);
}

// Never called: the outputs share the input's memory.
void ForwardOnGpu(const Layer&, const ForwardArgs&) { CREMA_CHECK(false); }

void BackwardOnGpu(const Layer&, const BackwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const TensorView& dx = args.input_grads[0];
  DispatchCudaFloat(dx.dtype(), [&]<typename T>(T) {
    SumGradients(queue, args.output_grads, dx.count(), Elements<T>(dx));
  });
}

}  // namespace

void RegisterSplitCuda(Registry& registry) {
  AddForAnyOrder(&registry, "Split", MakeCudaImplementation(ForwardOnGpu, BackwardOnGpu));
}

}  // namespace crema
