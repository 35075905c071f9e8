// MultinomialLogisticLoss on the GPU; see multinomial_logistic_loss.cc.
#include "layers/loss/gpu_loss.cuh"
#include "layers/loss/item_batch.h"

namespace crema {
namespace {

// NaN stays NaN.
CREMA_HOST_DEVICE inline float Clamped(float p) {
  constexpr float kSmallest = 1e-20f;
  return p < kSmallest ? kSmallest : p;
}

template <typename T>
void Forward(const CudaQueue& queue, int64_t items, const T* prob, const GpuLabels<T>& labels,
             GpuDivisor divisor, double* parts, T* loss) {
  const auto cost = [=] CREMA_HOST_DEVICE(int64_t n) {
    const int64_t label = labels(n);
    if (label < 0) return NotANumber();
    return -std::log(Clamped(ToFloat(prob[n * labels.classes + label])));
  };
  WriteLoss(queue, items, cost, divisor, parts, loss);
}

template <typename T>
void Backward(const CudaQueue& queue, int64_t items, const T* prob, const GpuLabels<T>& labels,
              GpuDivisor divisor, const T* dloss, T* dp) {
  ForElements(queue, "LogisticBackward", items * labels.classes, [=] CREMA_HOST_DEVICE(int64_t i) {
    const bool own = i % labels.classes == labels(i / labels.classes);
    const float scale = ToFloat(dloss[0]) / divisor.Value();
    dp[i] = FromFloat<T>(own ? -scale / Clamped(ToFloat(prob[i])) : 0);
  });
}

GpuDivisor DivisorOf(const Shape& prob) { return {.fixed = static_cast<float>(BatchSize(prob))}; }

void ForwardOnGpu(const Layer&, const ForwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const Shape& shape = args.inputs[0].shape();
  double* parts = ScratchCutter(args.scratch).Take<double>(kMostSumParts);
  DispatchCudaFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
    const GpuLabels<T> labels(Elements<T>(args.inputs[1]), shape.count(1));
    Forward(queue, shape[0], Elements<T>(args.inputs[0]), labels, DivisorOf(shape), parts,
            Elements<T>(args.outputs[0]));
  });
}

void BackwardOnGpu(const Layer&, const BackwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const Shape& shape = args.inputs[0].shape();
  DispatchCudaFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
    const GpuLabels<T> labels(Elements<T>(args.inputs[1]), shape.count(1));
    Backward(queue, shape[0], Elements<T>(args.inputs[0]), labels, DivisorOf(shape),
             Elements<T>(args.output_grads[0]), Elements<T>(args.input_grads[0]));
  });
}

}  // namespace

void RegisterMultinomialLogisticLossCuda(Registry& registry) {
  registry.AddImplementation("MultinomialLogisticLoss",
                             MakeLossImplementation(ForwardOnGpu, BackwardOnGpu));
}

}  // namespace crema
