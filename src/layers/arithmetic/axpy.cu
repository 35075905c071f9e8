// Axpy on the GPU; see axpy.cc.
#include "layers/gpu_implementation.h"
#include "math/cuda/broadcast.cuh"
#include "math/cuda/copy.cuh"

namespace crema {
namespace {

// y = a * x + z, a number of `a` for `plane` elements each; `z` may be null.
template <typename T>
void ScalePlanes(const CudaQueue& queue, int64_t count, int64_t plane, const T* a, const T* x,
                 const T* z, T* y) {
  ForElements(queue, "Axpy", count, [=] CREMA_HOST_DEVICE(int64_t i) {
    const float shift = z == nullptr ? 0 : ToFloat(z[i]);
    y[i] = FromFloat<T>(ToFloat(a[i / plane]) * ToFloat(x[i]) + shift);
  });
}

template <typename T>
void AddFactorGradient(const CudaQueue& queue, const BroadcastShape& e, const T* x, const T* dy,
                       std::span<std::byte> scratch, T* da) {
  AddBroadcastSums(
      queue, e, [=] CREMA_HOST_DEVICE(int64_t i) { return ToFloat(dy[i]) * ToFloat(x[i]); },
      scratch, da);
}

BroadcastShape SizesOf(const Shape& x) { return {1, x.count(0, 2), x.count(2)}; }

void ForwardOnGpu(const Layer&, const ForwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const ConstTensorView& x = args.inputs[1];
  DispatchCudaFloat(x.dtype(), [&]<typename T>(T) {
    ScalePlanes(queue, x.count(), x.shape().count(2), Elements<T>(args.inputs[0]), Elements<T>(x),
                Elements<T>(args.inputs[2]), Elements<T>(args.outputs[0]));
  });
}

template <typename T>
void Backward(const CudaQueue& queue, const BackwardArgs& args) {
  const BroadcastShape e = SizesOf(args.inputs[1].shape());
  const T* dy = Elements<T>(args.output_grads[0]);
  if (const TensorView& da = args.input_grads[0]; !da.empty()) {
    ZeroElements(queue, da.count(), Elements<T>(da));
    AddFactorGradient(queue, e, Elements<T>(args.inputs[1]), dy, args.scratch, Elements<T>(da));
  }
  if (const TensorView& dx = args.input_grads[1]; !dx.empty()) {
    ScalePlanes<T>(queue, dx.count(), e.inner, Elements<T>(args.inputs[0]), dy, nullptr,
                   Elements<T>(dx));
  }
  if (const TensorView& dz = args.input_grads[2]; !dz.empty()) {
    CopyElements(queue, dz.count(), dy, Elements<T>(dz));
  }
}

void BackwardOnGpu(const Layer&, const BackwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  DispatchCudaFloat(args.output_grads[0].dtype(), [&]<typename T>(T) { Backward<T>(queue, args); });
}

size_t BackwardScratch(const OpDesc& query) {
  return BroadcastSumScratch(SizesOf(query.context.inputs[1].shape));
}

}  // namespace

void RegisterAxpyCuda(Registry& registry) {
  registry.AddImplementation("Axpy", MakeCudaImplementation(ForwardOnGpu, BackwardOnGpu,
                                                            {.backward_scratch = BackwardScratch}));
}

}  // namespace crema
