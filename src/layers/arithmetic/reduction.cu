// Reduction on the GPU; see reduction.cc.
#include <algorithm>
#include <cmath>

#include "crema.pb.h"
#include "layers/gpu_implementation.h"
#include "layers/layer_axis.h"
#include "math/cuda/broadcast.cuh"
#include "math/cuda/copy.cuh"

namespace crema {
namespace {

// Returns the rows as the middle axis and their elements as the inner one.
BroadcastShape SizesOf(const Layer& layer, const Shape& shape) {
  const int axis =
      LayerAxis(layer, shape, layer.param().reduction_param().axis(), "reduction_param.axis");
  return {1, shape.count(0, axis), shape.count(axis)};
}

ReductionParameter::ReductionOp Operation(const Layer& layer) {
  return layer.param().reduction_param().operation();
}

float Factor(const Layer& layer, int64_t length) {
  const float coeff = layer.param().reduction_param().coeff();
  if (Operation(layer) != ReductionParameter::MEAN) return coeff;
  return coeff / static_cast<float>(std::max<int64_t>(1, length));
}

template <typename T>
void Fold(const CudaQueue& queue, ReductionParameter::ReductionOp operation, float factor,
          const BroadcastShape& e, const T* x, std::span<std::byte> scratch, T* y) {
  const bool absolute = operation == ReductionParameter::ASUM;
  const bool square = operation == ReductionParameter::SUMSQ;
  ZeroElements(queue, e.middle, y);
  AddBroadcastSums(
      queue, e,
      [=] CREMA_HOST_DEVICE(int64_t i) {
        const float value = ToFloat(x[i]);
        return factor * (absolute ? std::fabs(value) : square ? value * value : value);
      },
      scratch, y);
}

template <typename T>
void Unfold(const CudaQueue& queue, ReductionParameter::ReductionOp operation, float factor,
            const BroadcastShape& e, const T* x, const T* dy, T* dx) {
  const bool absolute = operation == ReductionParameter::ASUM;
  const bool square = operation == ReductionParameter::SUMSQ;
  const int64_t length = e.inner;
  ForElements(queue, "ReductionGradient", e.count(), [=] CREMA_HOST_DEVICE(int64_t i) {
    float slope = factor * ToFloat(dy[i / length]);
    if (absolute || square) {  // otherwise x is not available
      const float value = ToFloat(x[i]);
      slope *= square ? 2 * value : static_cast<float>((value > 0) - (value < 0));
    }
    dx[i] = FromFloat<T>(slope);
  });
}

void ForwardOnGpu(const Layer& layer, const ForwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const ConstTensorView& x = args.inputs[0];
  const BroadcastShape e = SizesOf(layer, x.shape());
  DispatchCudaFloat(x.dtype(), [&]<typename T>(T) {
    Fold(queue, Operation(layer), Factor(layer, e.inner), e, Elements<T>(x), args.scratch,
         Elements<T>(args.outputs[0]));
  });
}

void BackwardOnGpu(const Layer& layer, const BackwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const TensorView& dx = args.input_grads[0];
  const BroadcastShape e = SizesOf(layer, dx.shape());
  DispatchCudaFloat(dx.dtype(), [&]<typename T>(T) {
    Unfold(queue, Operation(layer), Factor(layer, e.inner), e, Elements<T>(args.inputs[0]),
           Elements<T>(args.output_grads[0]), Elements<T>(dx));
  });
}

size_t ForwardScratch(const OpDesc& query) {
  return BroadcastSumScratch(SizesOf(query.layer, query.context.inputs[0].shape));
}

}  // namespace

void RegisterReductionCuda(Registry& registry) {
  registry.AddImplementation(
      "Reduction",
      MakeCudaImplementation(ForwardOnGpu, BackwardOnGpu, {.forward_scratch = ForwardScratch}));
}

}  // namespace crema
