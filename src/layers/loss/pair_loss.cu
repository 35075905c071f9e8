// EuclideanLoss, L1Loss and SmoothL1Loss on the GPU; see pair_loss.h.
#include "layers/loss/gpu_loss.cuh"
#include "layers/loss/item_batch.h"
#include "layers/loss/pair_rules.h"

namespace crema {
namespace {

template <typename T>
struct GpuPairs {
  explicit GpuPairs(std::span<const ConstTensorView> inputs)
      : a(Elements<T>(inputs[0])),
        b(Elements<T>(inputs[1])),
        inside(inputs.size() > 2 ? Elements<T>(inputs[2]) : nullptr),
        outside(inputs.size() > 3 ? Elements<T>(inputs[3]) : nullptr) {}

  CREMA_HOST_DEVICE float Inside(int64_t i) const {
    return inside == nullptr ? 1 : ToFloat(inside[i]);
  }
  CREMA_HOST_DEVICE float Outside(int64_t i) const {
    return outside == nullptr ? 1 : ToFloat(outside[i]);
  }
  CREMA_HOST_DEVICE float Difference(int64_t i) const {
    return Inside(i) * (ToFloat(a[i]) - ToFloat(b[i]));
  }

  const T* a;
  const T* b;
  const T* inside;
  const T* outside;
};

template <typename T, typename Rule>
void Forward(const CudaQueue& queue, const Rule& rule, const GpuPairs<T>& pairs, int64_t count,
             float items, double* parts, T* loss) {
  const auto cost = [=] CREMA_HOST_DEVICE(int64_t i) {
    return pairs.Outside(i) * rule.Cost(pairs.Difference(i));
  };
  WriteLoss(queue, count, cost, {.fixed = items}, parts, loss);
}

// `sign` is 1 for da and -1 for db.
template <typename T, typename Rule>
void Backward(const CudaQueue& queue, const Rule& rule, const GpuPairs<T>& pairs, int64_t count,
              float items, float sign, const T* dloss, T* dx) {
  ForElements(queue, "PairLossBackward", count, [=] CREMA_HOST_DEVICE(int64_t i) {
    const float scale = sign * ToFloat(dloss[0]) / items;
    dx[i] =
        FromFloat<T>(scale * pairs.Inside(i) * pairs.Outside(i) * rule.Slope(pairs.Difference(i)));
  });
}

template <typename Rule>
void ForwardOnGpu(const Layer& layer, const ForwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const Shape& shape = args.inputs[0].shape();
  double* parts = ScratchCutter(args.scratch).Take<double>(kMostSumParts);
  DispatchCudaFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
    Forward(queue, Rule(layer), GpuPairs<T>(args.inputs), shape.count(),
            static_cast<float>(BatchSize(shape)), parts, Elements<T>(args.outputs[0]));
  });
}

template <typename Rule>
void BackwardOnGpu(const Layer& layer, const BackwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const Shape& shape = args.inputs[0].shape();
  DispatchCudaFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
    for (size_t side = 0; side < 2; ++side) {
      if (args.input_grads[side].empty()) continue;
      Backward(queue, Rule(layer), GpuPairs<T>(args.inputs), shape.count(),
               static_cast<float>(BatchSize(shape)), side == 0 ? 1 : -1,
               Elements<T>(args.output_grads[0]), Elements<T>(args.input_grads[side]));
    }
  });
}

template <typename Rule>
ImplementationPtr PairRow() {
  return MakeLossImplementation(ForwardOnGpu<Rule>, BackwardOnGpu<Rule>);
}

}  // namespace

void RegisterPairLossCuda(Registry& registry) {
  registry.AddImplementation("EuclideanLoss", PairRow<HalfSquare>());
  registry.AddImplementation("L1Loss", PairRow<Magnitude>());
  registry.AddImplementation("SmoothL1Loss", PairRow<Huber>());
}

}  // namespace crema
