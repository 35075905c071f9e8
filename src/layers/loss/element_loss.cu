// Losses that are a sum over elements, on the GPU; see element_rules.h.
#include "layers/loss/element_rules.h"
#include "layers/loss/gpu_loss.cuh"

namespace crema {
namespace {

template <typename T, typename Items>
void WriteCosts(const CudaQueue& queue, const Items& items, GpuDivisor divisor, double* parts,
                T* loss) {
  const auto cost = [=] CREMA_HOST_DEVICE(int64_t i) {
    return items.Cost(items.Own(i / items.costs()), i);
  };
  WriteLoss(queue, items.count * items.costs(), cost, divisor, parts, loss);
}

// `sign` is 1 for the gradient of input 0 and -1 for that of input 1.
template <typename T, typename Items>
void WriteGradients(const CudaQueue& queue, const Items& items, GpuDivisor divisor, float sign,
                    const T* dloss, T* dx) {
  ForElements(queue, "ElementLossBackward", items.count * items.gradients(),
              [=] CREMA_HOST_DEVICE(int64_t i) {
                const float scale = sign * ToFloat(dloss[0]) / divisor.Value();
                dx[i] = FromFloat<T>(items.Gradient(items.Own(i / items.gradients()), i, scale));
              });
}

template <typename Rule, typename Items>
GpuDivisor CountedDivisor(const CudaQueue& queue, const Rule& rule, const Shape& shape,
                          const Items& items, ScratchCutter* cutter) {
  double* parts = cutter->Take<double>(kMostSumParts);
  return DivisorOf(
      queue, rule.normalizer, {.outer = shape[0], .all = items.count, .counted = items.count},
      items.ignores, [=] CREMA_HOST_DEVICE(int64_t i) { return items.Ignores(i) ? 0.0f : 1.0f; },
      parts, cutter->Take<float>(1));
}

template <typename Rule, typename Items>
GpuDivisor Divisor(const CudaQueue& queue, const Rule& rule, const Shape& shape, const Items& items,
                   std::span<std::byte> scratch) {
  ScratchCutter cutter(scratch);
  if constexpr (Rule::kIgnores) return CountedDivisor(queue, rule, shape, items, &cutter);
  return {.fixed = static_cast<float>(BatchSize(shape))};
}

template <typename Rule>
void ForwardOnGpu(const Layer& layer, const ForwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const Rule rule(layer);
  double* parts = ScratchCutter(args.scratch).Take<double>(kMostSumParts);
  DispatchCudaFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
    const typename Rule::template Items<T, float> items(rule, args.inputs);
    const GpuDivisor divisor = Divisor(queue, rule, args.inputs[0].shape(), items, args.scratch);
    WriteCosts(queue, items, divisor, parts, Elements<T>(args.outputs[0]));
  });
}

template <typename Rule>
void BackwardOnGpu(const Layer& layer, const BackwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const Rule rule(layer);
  DispatchCudaFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
    const typename Rule::template Items<T, float> items(rule, args.inputs);
    const GpuDivisor divisor = Divisor(queue, rule, args.inputs[0].shape(), items, args.scratch);
    for (size_t input = 0; input < Rule::kGradients; ++input) {
      if (args.input_grads[input].empty()) continue;
      WriteGradients(queue, items, divisor, input == 0 ? 1 : -1, Elements<T>(args.output_grads[0]),
                     Elements<T>(args.input_grads[input]));
    }
  });
}

template <typename Rule>
void Add(Registry& registry, std::string_view type) {
  registry.AddImplementation(type, MakeLossImplementation(ForwardOnGpu<Rule>, BackwardOnGpu<Rule>));
}

}  // namespace

void RegisterElementLossCuda(Registry& registry) {
  Add<PairRule<HalfSquare>>(registry, "EuclideanLoss");
  Add<PairRule<Magnitude>>(registry, "L1Loss");
  Add<PairRule<Huber>>(registry, "SmoothL1Loss");
  Add<HingeRule>(registry, "HingeLoss");
  Add<LogisticRule>(registry, "MultinomialLogisticLoss");
  Add<SigmoidRule>(registry, "SigmoidCrossEntropyLoss");
}

}  // namespace crema
