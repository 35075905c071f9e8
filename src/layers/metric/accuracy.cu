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
  SoftmaxSize extent;
  GpuLabels<T> labels;
  int64_t top_k;
  const T* scores;
  float* right;

  template <typename Workers>
  CREMA_HOST_DEVICE void operator()(const Workers& workers, int64_t position) const {
    const int64_t label = labels(position);
    const T* x = scores + FirstClass(extent, position);
    const float own = ToFloat(x[(label < 0 ? 0 : label) * extent.inner]);
    // Includes the label's own score.
    const int64_t better = workers.Sum(extent.classes, [&](int64_t c) {
      return static_cast<int64_t>(ToFloat(x[c * extent.inner]) >= own);
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

void ForwardOnGpu(const Layer& layer, const ForwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const AccuracyParameter& param = layer.param().accuracy_param();
  const ConstTensorView& scores = args.inputs[0];
  const SoftmaxSize extent = SizesOf(layer, scores.shape());
  const int64_t positions = extent.outer * extent.inner;
  std::optional<int32_t> ignored;
  if (param.has_ignore_label()) ignored = param.ignore_label();
  ScratchCutter cutter(args.scratch);
  double* parts = cutter.Take<double>(kMostSumParts);
  float* counted = cutter.Take<float>(1);
  float* right = cutter.Take<float>(positions);
  DispatchCudaFloat(scores.dtype(), [&]<typename T>(T) {
    const GpuLabels<T> labels(Elements<T>(args.inputs[1]), extent.classes, ignored);
    ForPositions(queue, "Accuracy", extent,
                 Judge<T>{extent, labels, param.top_k(), Elements<T>(scores), right});
    const GpuDivisor divisor = CountedLabels(queue, labels, positions, parts, counted);
    WriteSumOfCosts(queue, positions, right, divisor, parts, Elements<T>(args.outputs[0]));
    if (args.outputs.size() < 2) return;
    WriteShares(queue, labels, positions, right, Elements<T>(args.outputs[1]));
  });
}

size_t Scratch(const OpDesc& query) {
  const SoftmaxSize extent = SizesOf(query.layer, query.context.inputs[0].shape);
  return LossScratch(query) + ScratchBytes<float>(extent.outer * extent.inner);
}

}  // namespace

void RegisterAccuracyCuda(Registry& registry) {
  registry.AddImplementation(
      "Accuracy", MakeCudaImplementation(ForwardOnGpu, nullptr, {.forward_scratch = Scratch}));
}

}  // namespace crema
