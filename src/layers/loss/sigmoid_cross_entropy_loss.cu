// SigmoidCrossEntropyLoss on the GPU; see sigmoid_cross_entropy_loss.cc.
#include "crema.pb.h"
#include "layers/loss/gpu_loss.cuh"
#include "layers/loss/sigmoid_cross_entropy_rule.h"

namespace crema {
namespace {

template <typename T>
struct Targets {
  Targets(const Layer& layer, const ConstTensorView& view) : data(Elements<T>(view)) {
    const std::optional<int32_t> ignore = IgnoredLabel(layer.param().loss_param());
    ignores = ignore.has_value();
    ignored = ignore.value_or(0);
  }
  // As in Caffe, the target is truncated before the comparison.
  CREMA_HOST_DEVICE bool Ignores(int64_t i) const {
    return ignores && std::trunc(static_cast<double>(ToFloat(data[i]))) == ignored;
  }
  const T* data;
  bool ignores;
  double ignored;
};

template <typename T>
GpuDivisor Divisor(const CudaQueue& queue, const Layer& layer, const Shape& shape,
                   const Targets<T>& targets, double* parts, float* result) {
  return DivisorOf(
      queue, LossNormalizer(layer, LossParameter::BATCH_SIZE),
      {.outer = shape[0], .all = shape.count(), .counted = shape.count()}, targets.ignores,
      [=] CREMA_HOST_DEVICE(int64_t i) { return targets.Ignores(i) ? 0.0f : 1.0f; }, parts, result);
}

template <typename T>
void Forward(const CudaQueue& queue, int64_t count, const T* x, const Targets<T>& targets,
             GpuDivisor divisor, double* parts, T* loss) {
  const auto cost = [=] CREMA_HOST_DEVICE(int64_t i) {
    return targets.Ignores(i) ? 0.0f
                              : -SigmoidLogLikelihood(ToFloat(x[i]), ToFloat(targets.data[i]));
  };
  WriteLoss(queue, count, cost, divisor, parts, loss);
}

template <typename T>
void Backward(const CudaQueue& queue, int64_t count, const T* x, const Targets<T>& targets,
              GpuDivisor divisor, const T* dloss, T* dx) {
  ForElements(queue, "SigmoidLossBackward", count, [=] CREMA_HOST_DEVICE(int64_t i) {
    const float scale = ToFloat(dloss[0]) / divisor.Value();
    const float slope = StableSigmoid(ToFloat(x[i])) - ToFloat(targets.data[i]);
    dx[i] = FromFloat<T>(targets.Ignores(i) ? 0 : scale * slope);
  });
}

void ForwardOnGpu(const Layer& layer, const ForwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const ConstTensorView& x = args.inputs[0];
  ScratchCutter cutter(args.scratch);
  double* parts = cutter.Take<double>(kMostSumParts);
  float* counted = cutter.Take<float>(1);
  DispatchCudaFloat(x.dtype(), [&]<typename T>(T) {
    const Targets<T> targets(layer, args.inputs[1]);
    const GpuDivisor divisor =
        Divisor(queue, layer, args.inputs[1].shape(), targets, parts, counted);
    Forward(queue, x.count(), Elements<T>(x), targets, divisor, parts,
            Elements<T>(args.outputs[0]));
  });
}

void BackwardOnGpu(const Layer& layer, const BackwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const ConstTensorView& x = args.inputs[0];
  ScratchCutter cutter(args.scratch);
  double* parts = cutter.Take<double>(kMostSumParts);
  float* counted = cutter.Take<float>(1);
  DispatchCudaFloat(x.dtype(), [&]<typename T>(T) {
    const Targets<T> targets(layer, args.inputs[1]);
    const GpuDivisor divisor =
        Divisor(queue, layer, args.inputs[1].shape(), targets, parts, counted);
    Backward(queue, x.count(), Elements<T>(x), targets, divisor, Elements<T>(args.output_grads[0]),
             Elements<T>(args.input_grads[0]));
  });
}

}  // namespace

void RegisterSigmoidCrossEntropyLossCuda(Registry& registry) {
  registry.AddImplementation("SigmoidCrossEntropyLoss",
                             MakeLossImplementation(ForwardOnGpu, BackwardOnGpu));
}

}  // namespace crema
