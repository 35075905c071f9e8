// Split on the GPU; see split.cc.
#include "core/error.h"
#include "layers/channels_last_implementation.h"
#include "layers/gpu_implementation.h"
#include "math/cuda/copy.cuh"
#include "math/cuda/sum_up.cuh"

namespace crema {
namespace {

struct GpuSplit {
  // Never called: the outputs share the input's memory.
  template <typename T>
  static void Forward(const Layer&, const GpuForward<T>&) {
    CREMA_CHECK(false);
  }

  // dx = the sum of the nonempty gradients. dx may share memory with one of them, which is
  // therefore added first.
  template <typename T>
  static void Backward(const Layer&, const GpuBackward<T>& args) {
    const int64_t count = args.input_grads[0].count();
    T* dx = args.dx();
    Operands<T> group{};
    const T* start = nullptr;
    const auto flush = [&] {
      if (group.count > 0) SumUp(args.queue, count, group, start, dx);
      if (group.count > 0) start = dx;
      group.count = 0;
    };
    for (bool own : {true, false}) {
      for (const ConstTensorView& grad : args.output_grads) {
        if (grad.empty() || (grad.raw() == dx) != own) continue;
        group.x[group.count] = Elements<T>(grad);
        group.factor[group.count++] = 1;
        if (group.count == Operands<T>::kMost) flush();
      }
    }
    flush();
    if (start == nullptr) ZeroElements(args.queue, count, dx);
  }
};

}  // namespace

void RegisterSplitCuda(Registry& registry) {
  AddForAnyOrder(&registry, "Split", CudaImplementation<GpuSplit>());
}

}  // namespace crema
