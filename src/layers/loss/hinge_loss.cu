// HingeLoss on the GPU; see hinge_loss.cc.
#include "crema.pb.h"
#include "layers/loss/gpu_loss.cuh"
#include "layers/loss/hinge_rule.h"
#include "layers/loss/item_batch.h"

namespace crema {
namespace {

template <typename T>
void Forward(const CudaQueue& queue, int64_t items, HingeRule rule, const T* x,
             const GpuLabels<T>& labels, GpuDivisor divisor, double* parts, T* loss) {
  const auto cost = [=] CREMA_HOST_DEVICE(int64_t i) {
    const int64_t label = labels(i / labels.classes);
    if (label < 0) return NotANumber();
    return rule.Cost(ToFloat(x[i]), i % labels.classes == label ? 1.0f : -1.0f);
  };
  WriteLoss(queue, items * labels.classes, cost, divisor, parts, loss);
}

template <typename T>
void Backward(const CudaQueue& queue, int64_t items, HingeRule rule, const T* x,
              const GpuLabels<T>& labels, GpuDivisor divisor, const T* dloss, T* dx) {
  ForElements(queue, "HingeBackward", items * labels.classes, [=] CREMA_HOST_DEVICE(int64_t i) {
    const float scale = ToFloat(dloss[0]) / divisor.Value();
    const int64_t label = labels(i / labels.classes);
    const float sign = i % labels.classes == label ? 1 : -1;
    dx[i] = FromFloat<T>(label < 0 ? 0 : scale * rule.Slope(ToFloat(x[i]), sign));
  });
}

HingeRule RuleOf(const Layer& layer) {
  return {layer.param().hinge_loss_param().norm() == HingeLossParameter::L2};
}

GpuDivisor DivisorOf(const Shape& scores) {
  return {.fixed = static_cast<float>(BatchSize(scores))};
}

void ForwardOnGpu(const Layer& layer, const ForwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const Shape& shape = args.inputs[0].shape();
  double* parts = ScratchCutter(args.scratch).Take<double>(kMostSumParts);
  DispatchCudaFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
    const GpuLabels<T> labels(Elements<T>(args.inputs[1]), shape.count(1));
    Forward(queue, shape[0], RuleOf(layer), Elements<T>(args.inputs[0]), labels, DivisorOf(shape),
            parts, Elements<T>(args.outputs[0]));
  });
}

void BackwardOnGpu(const Layer& layer, const BackwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const Shape& shape = args.inputs[0].shape();
  DispatchCudaFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
    const GpuLabels<T> labels(Elements<T>(args.inputs[1]), shape.count(1));
    Backward(queue, shape[0], RuleOf(layer), Elements<T>(args.inputs[0]), labels, DivisorOf(shape),
             Elements<T>(args.output_grads[0]), Elements<T>(args.input_grads[0]));
  });
}

}  // namespace

void RegisterHingeLossCuda(Registry& registry) {
  registry.AddImplementation("HingeLoss", MakeLossImplementation(ForwardOnGpu, BackwardOnGpu));
}

}  // namespace crema
