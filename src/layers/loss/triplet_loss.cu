// TripletLoss on the GPU; see triplet_loss.cc.
#include "crema.pb.h"
#include "layers/loss/distance.cuh"
#include "layers/loss/item_batch.h"
#include "layers/loss/triplet_rule.h"

namespace crema {
namespace {

using Rule = TripletRule<float>;

template <typename T>
struct GpuTriplets {
  explicit GpuTriplets(std::span<const ConstTensorView> inputs)
      : anchor(Elements<T>(inputs[0])),
        positive(Elements<T>(inputs[1])),
        negative(Elements<T>(inputs[2])),
        count(inputs[0].shape()[0]),
        values(inputs[0].shape().count(1)) {}

  CREMA_HOST_DEVICE Rule::Measured Measure(const Team& team, const Rule& rule, int64_t n) const {
    const int64_t at = n * values;
    const float near = SquaredDistance(team, anchor + at, positive + at, values);
    const float far = SquaredDistance(team, anchor + at, negative + at, values);
    return rule.Measure(near, far);
  }

  const T* anchor;
  const T* positive;
  const T* negative;
  int64_t count, values;
};

// A pointer is null if its gradient is not wanted.
template <typename T>
struct TripletGradients {
  T* anchor;
  T* positive;
  T* negative;
};

Rule RuleOf(const Layer& layer) {
  const TripletLossParameter& param = layer.param().triplet_loss_param();
  return {param.margin(), param.euclidean()};
}

template <typename T>
void WriteCosts(const CudaQueue& queue, const Rule& rule, const GpuTriplets<T>& items,
                float* costs) {
  ForTeams(queue, "TripletCosts", items.count, [=] CREMA_HOST_DEVICE(const Team& team, int64_t n) {
    const float cost = items.Measure(team, rule, n).cost;
    team.For(1, [&](int64_t) { costs[n] = cost < 0 ? 0 : cost; });  // NaN stays NaN
  });
}

template <typename T>
void Backward(const CudaQueue& queue, const Rule& rule, const GpuTriplets<T>& items,
              float batch_size, const T* dloss, const TripletGradients<T>& out) {
  ForTeams(queue, "TripletBackward", items.count,
           [=] CREMA_HOST_DEVICE(const Team& team, int64_t n) {
             const Rule::Measured measured = items.Measure(team, rule, n);
             const bool active = !(measured.cost <= 0);  // true for NaN too, so that NaN propagates
             const float scale = ToFloat(dloss[0]) / batch_size;
             const float pull = active ? scale * rule.SlopeFactor(measured.to_positive) : 0;
             const float push = active ? scale * rule.SlopeFactor(measured.to_negative) : 0;
             team.For(items.values, [&](int64_t k) {
               const int64_t i = n * items.values + k;
               const float anchor = ToFloat(items.anchor[i]);
               const float u = pull * (anchor - ToFloat(items.positive[i]));
               const float v = push * (anchor - ToFloat(items.negative[i]));
               if (out.anchor != nullptr) out.anchor[i] = FromFloat<T>(u - v);
               if (out.positive != nullptr) out.positive[i] = FromFloat<T>(-u);
               if (out.negative != nullptr) out.negative[i] = FromFloat<T>(v);
             });
           });
}

void ForwardOnGpu(const Layer& layer, const ForwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const Shape& shape = args.inputs[0].shape();
  ScratchCutter cutter(args.scratch);
  float* costs = cutter.Take<float>(shape[0]);
  double* parts = cutter.Take<double>(kMostSumParts);
  const GpuDivisor divisor{.fixed = static_cast<float>(BatchSize(shape))};
  DispatchCudaFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
    WriteCosts(queue, RuleOf(layer), GpuTriplets<T>(args.inputs), costs);
    WriteSumOfCosts(queue, shape[0], costs, divisor, parts, Elements<T>(args.outputs[0]));
  });
}

void BackwardOnGpu(const Layer& layer, const BackwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const auto items = static_cast<float>(BatchSize(args.inputs[0].shape()));
  DispatchCudaFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
    const TripletGradients<T> out{Elements<T>(args.input_grads[0]),
                                  Elements<T>(args.input_grads[1]),
                                  Elements<T>(args.input_grads[2])};
    Backward(queue, RuleOf(layer), GpuTriplets<T>(args.inputs), items,
             Elements<T>(args.output_grads[0]), out);
  });
}

}  // namespace

void RegisterTripletLossCuda(Registry& registry) {
  registry.AddImplementation(
      "TripletLoss",
      MakeCudaImplementation(ForwardOnGpu, BackwardOnGpu, {.forward_scratch = BatchCostScratch}));
}

}  // namespace crema
