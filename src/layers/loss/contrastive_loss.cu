// ContrastiveLoss on the GPU; see contrastive_loss.cc.
#include "crema.pb.h"
#include "layers/loss/contrastive_rule.h"
#include "layers/loss/distance.cuh"
#include "layers/loss/item_batch.h"

namespace crema {
namespace {

template <typename T>
struct LabelledPairs {
  explicit LabelledPairs(std::span<const ConstTensorView> inputs)
      : a(Elements<T>(inputs[0])),
        b(Elements<T>(inputs[1])),
        labels(Elements<T>(inputs[2])),
        count(inputs[0].shape()[0]),
        values(inputs[0].shape().count(1)) {}

  // Returns true if CheckWholeNumbers accepts the label of pair n; see kWrongLabel.
  CREMA_HOST_DEVICE bool Valid(int64_t n) const {
    const float label = ToFloat(labels[n]);
    return label == std::trunc(label) && std::isfinite(label);
  }
  CREMA_HOST_DEVICE bool Alike(int64_t n) const { return ToFloat(labels[n]) != 0; }

  const T* a;
  const T* b;
  const T* labels;
  int64_t count, values;
};

ContrastiveRule<float> RuleOf(const Layer& layer) {
  const ContrastiveLossParameter& param = layer.param().contrastive_loss_param();
  return {param.margin(), param.legacy_version()};
}

template <typename T>
void WriteCosts(const CudaQueue& queue, const ContrastiveRule<float>& rule,
                const LabelledPairs<T>& pairs, float* costs) {
  ForTeams(queue, "ContrastiveCosts", pairs.count,
           [=] CREMA_HOST_DEVICE(const Team& team, int64_t n) {
             const int64_t at = n * pairs.values;
             const float square = SquaredDistance(team, pairs.a + at, pairs.b + at, pairs.values);
             team.For(1, [&](int64_t) {
               costs[n] = pairs.Valid(n) ? rule.Cost(square, pairs.Alike(n)) : NotANumber();
             });
           });
}

// `da` and `db` may be null.
template <typename T>
void Backward(const CudaQueue& queue, const ContrastiveRule<float>& rule,
              const LabelledPairs<T>& pairs, float items, const T* dloss, T* da, T* db) {
  ForTeams(queue, "ContrastiveBackward", pairs.count,
           [=] CREMA_HOST_DEVICE(const Team& team, int64_t n) {
             const int64_t at = n * pairs.values;
             const float square = SquaredDistance(team, pairs.a + at, pairs.b + at, pairs.values);
             const float scale = pairs.Valid(n) ? ToFloat(dloss[0]) / items : 0;
             const float factor = scale * rule.Factor(square, pairs.Alike(n));
             team.For(pairs.values, [&](int64_t i) {
               const float gradient =
                   factor * (ToFloat(pairs.a[at + i]) - ToFloat(pairs.b[at + i]));
               if (da != nullptr) da[at + i] = FromFloat<T>(gradient);
               if (db != nullptr) db[at + i] = FromFloat<T>(-gradient);
             });
           });
}

void ForwardOnGpu(const Layer& layer, const ForwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const Shape& shape = args.inputs[0].shape();
  ScratchCutter cutter(args.scratch);
  float* costs = cutter.Take<float>(shape[0]);
  double* parts = cutter.Take<double>(kMostSumParts);
  const GpuDivisor divisor{.fixed = static_cast<float>(2 * BatchSize(shape))};
  DispatchCudaFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
    WriteCosts(queue, RuleOf(layer), LabelledPairs<T>(args.inputs), costs);
    WriteSumOfCosts(queue, shape[0], costs, divisor, parts, Elements<T>(args.outputs[0]));
  });
}

void BackwardOnGpu(const Layer& layer, const BackwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const auto items = static_cast<float>(BatchSize(args.inputs[0].shape()));
  DispatchCudaFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
    Backward(queue, RuleOf(layer), LabelledPairs<T>(args.inputs), items,
             Elements<T>(args.output_grads[0]), Elements<T>(args.input_grads[0]),
             Elements<T>(args.input_grads[1]));
  });
}

}  // namespace

void RegisterContrastiveLossCuda(Registry& registry) {
  registry.AddImplementation(
      "ContrastiveLoss",
      MakeCudaImplementation(ForwardOnGpu, BackwardOnGpu, {.forward_scratch = BatchCostScratch}));
}

}  // namespace crema
