// Losses of distances between features, on the GPU with a team for each item; see feature_rules.h.
#include "layers/loss/feature_rules.h"
#include "layers/loss/gpu_loss.cuh"

namespace crema {
namespace {

template <typename Items>
void WriteCosts(const CudaQueue& queue, const Items& items, float* costs) {
  ForTeams(queue, "FeatureCosts", items.count, [=] CREMA_HOST_DEVICE(const Team& team, int64_t n) {
    const float cost = items.Cost(team, n);
    team.For(1, [&](int64_t) { costs[n] = cost; });
  });
}

template <typename T, typename Items>
void WriteGradients(const CudaQueue& queue, const Items& items, float batch_size, const T* dloss,
                    const FeatureGradients<T>& to) {
  ForTeams(queue, "FeatureBackward", items.count,
           [=] CREMA_HOST_DEVICE(const Team& team, int64_t n) {
             items.WriteGradients(team, n, ToFloat(dloss[0]) / batch_size, to);
           });
}

template <typename Rule>
void ForwardOnGpu(const Layer& layer, const ForwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const Shape& shape = args.inputs[0].shape();
  ScratchCutter cutter(args.scratch);
  float* costs = cutter.Take<float>(shape[0]);
  double* parts = cutter.Take<double>(kMostSumParts);
  const GpuDivisor divisor{.fixed = static_cast<float>(Rule::kCostDivisor * BatchSize(shape))};
  DispatchCudaFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
    WriteCosts(queue, typename Rule::template Items<T, float>(Rule(layer), args.inputs), costs);
    WriteSumOfCosts(queue, shape[0], costs, divisor, parts, Elements<T>(args.outputs[0]));
  });
}

template <typename Rule>
void BackwardOnGpu(const Layer& layer, const BackwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const auto batch_size = static_cast<float>(BatchSize(args.inputs[0].shape()));
  DispatchCudaFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
    WriteGradients(queue, typename Rule::template Items<T, float>(Rule(layer), args.inputs),
                   batch_size, Elements<T>(args.output_grads[0]),
                   FeatureGradients<T>(args.input_grads));
  });
}

// Returns the scratch for the cost of each item, in addition to LossScratch.
size_t ForwardScratch(const OpDesc& query) {
  return LossScratch(query) + ScratchBytes<float>(query.context.inputs[0].shape[0]);
}

template <typename Rule>
void Add(Registry& registry, std::string_view type) {
  registry.AddImplementation(type, MakeCudaImplementation(ForwardOnGpu<Rule>, BackwardOnGpu<Rule>,
                                                          {.forward_scratch = ForwardScratch}));
}

}  // namespace

void RegisterFeatureLossCuda(Registry& registry) {
  Add<ContrastiveRule>(registry, "ContrastiveLoss");
  Add<TripletRule>(registry, "TripletLoss");
}

}  // namespace crema
