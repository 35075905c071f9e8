// Accuracy on the GPU; see accuracy.cc.
#include "crema.pb.h"
#include "layers/loss/gpu_loss.cuh"
#include "layers/loss/labels.h"
#include "layers/loss/positions.cuh"

namespace crema {
namespace {

// right[position] = 1 or 0; NaN for invalid labels (kWrongLabel), 0 for ignored ones.
template <typename T>
struct Judge {
  SoftmaxSize sizes;
  GpuLabels<T> labels;
  int64_t top_k;
  const T* scores;
  float* right;

  template <typename Workers>
  CREMA_HOST_DEVICE void operator()(const Workers& workers, int64_t position) const {
    const int64_t label = labels(position);
    const T* x = scores + FirstClass(sizes, position);
    const float own = ToFloat(x[(label < 0 ? 0 : label) * sizes.inner]);
    // Includes the label's own score.
    const int64_t better = workers.Sum(sizes.classes, [&](int64_t c) {
      return static_cast<int64_t>(ToFloat(x[c * sizes.inner]) >= own);
    });
    workers.For(1, [&](int64_t) {
      right[position] = label == kWrongLabel            ? NotANumber()
                        : label >= 0 && better <= top_k ? 1.0f
                                                        : 0.0f;
    });
  }
};

template <typename T>
GpuDivisor CountedLabels(const CudaQueue& queue, const GpuLabels<T>& labels, int64_t positions,
                         double* parts, float* result) {
  if (!labels.ignores) return {.fixed = static_cast<float>(std::max<int64_t>(1, positions))};
  SumBatch(
      queue, positions, [=] CREMA_HOST_DEVICE(int64_t i) { return labels(i) >= 0 ? 1.0f : 0.0f; },
      parts,
      [=] CREMA_HOST_DEVICE(double sum) { result[0] = static_cast<float>(sum < 1 ? 1 : sum); });
  return {.fixed = 1, .counted = result};
}

template <typename T>
void WriteShares(const CudaQueue& queue, const GpuLabels<T>& labels, int64_t positions,
                 const float* right, T* shares) {
  ForTeams(queue, "AccuracyOfClasses", labels.classes,
           [=] CREMA_HOST_DEVICE(const Team& team, int64_t c) {
             const int64_t items = team.Sum(
                 positions, [&](int64_t i) { return static_cast<int64_t>(labels(i) == c); });
             const int64_t hits = team.Sum(positions, [&](int64_t i) {
               return static_cast<int64_t>(labels(i) == c && right[i] > 0);
             });
             const double share =
                 items == 0 ? 0 : static_cast<double>(hits) / static_cast<double>(items);
             team.For(1, [&](int64_t) { shares[c] = FromFloat<T>(static_cast<float>(share)); });
           });
}

SoftmaxSize SizesOf(const Layer& layer, const Shape& scores) {
  return ClassSize(layer, scores, layer.param().accuracy_param().axis(), "accuracy_param.axis");
}

struct GpuAccuracy {
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    const AccuracyParameter& param = layer.param().accuracy_param();
    const SoftmaxSize sizes = SizesOf(layer, args.inputs[0].shape());
    const int64_t positions = sizes.outer * sizes.inner;
    std::optional<int32_t> ignored;
    if (param.has_ignore_label()) ignored = param.ignore_label();
    ScratchCutter cutter(args.scratch);
    double* parts = cutter.Take<double>(kMostSumParts);
    float* counted = cutter.Take<float>(1);
    float* right = cutter.Take<float>(positions);
    const GpuLabels<T> labels(args.x(1), sizes.classes, ignored);
    ForPositions(args.queue, "Accuracy", sizes,
                 Judge<T>{sizes, labels, param.top_k(), args.x(0), right});
    const GpuDivisor divisor = CountedLabels(args.queue, labels, positions, parts, counted);
    WriteSumOfCosts(args.queue, positions, right, divisor, parts, args.y());
    if (args.outputs.size() > 1) WriteShares(args.queue, labels, positions, right, args.y(1));
  }

  static size_t ForwardScratch(const OpDesc& query) {
    const SoftmaxSize sizes = SizesOf(query.layer, query.context.inputs[0].shape);
    return LossScratch(query) + ScratchBytes<float>(sizes.outer * sizes.inner);
  }
};

}  // namespace

void RegisterAccuracyCuda(Registry& registry) {
  registry.AddImplementation("Accuracy", CudaImplementation<GpuAccuracy>());
}

}  // namespace crema
