#include "layers/loss/softmax_loss.h"

#include <algorithm>
#include <utility>

#include "crema.pb.h"
#include "layers/loss/item_batch.h"
#include "layers/loss/item_loops.h"
#include "layers/loss/labels.h"
#include "math/scratch.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 1 << 12;  // fewest elements per thread

// dx += p * (dp - sum dp * p): adds the gradient of the probabilities' output.
template <typename T>
void AddSoftmaxGradient(const SoftmaxBatch<T>& batch, const T* dp, T* dx) {
  const SoftmaxSize& sizes = batch.sizes;
  ForItems(batch.threads, batch.positions(), ItemGrain(sizes.classes, kGrain), [&](int64_t at) {
    const int64_t first = batch.First(at);
    const int64_t last = first + sizes.classes * sizes.inner;
    T dot = 0;
    for (int64_t i = first; i < last; i += sizes.inner) dot += dp[i] * batch.prob[i];
    for (int64_t i = first; i < last; i += sizes.inner) dx[i] += batch.prob[i] * (dp[i] - dot);
  });
}

}  // namespace

SoftmaxLoss::SoftmaxLoss(const LayerParameter& param, int axis, std::string axis_field)
    : Layer(param),
      axis_(axis),
      axis_field_(std::move(axis_field)),
      ignored_(IgnoredLabel(param.loss_param())),
      normalizer_(*this) {}

LayerInfo SoftmaxLoss::Infer(const InferContext& context) const {
  const BlobSpec& scores = context.inputs[0];
  const SoftmaxSize sizes = SizesOf(scores.shape);
  if (!AreTargets(scores.shape, context.inputs[1].shape)) {
    CheckLabelShape(*this, scores.shape, sizes, context.inputs[1].shape, axis_ != 0);
  }
  CheckRule(context, sizes);
  LayerInfo info = LossInfo(context, 1);
  info.backward_reads_input[0] = false;
  if (context.output_count > 1) {
    info.outputs.push_back(scores);
    info.backward_reads_output = {false, true};
  } else {
    info.saved = {scores};
  }
  return info;
}

// The probabilities need scratch if neither an output nor a saved blob holds them.
size_t SoftmaxLoss::ForwardScratch(const InferContext& context, const LayerInfo& info, int) const {
  const BlobSpec& scores = context.inputs[0];
  const int64_t bytes = scores.shape.count() * static_cast<int64_t>(SizeOf(scores.dtype));
  return ScratchBytes<double>(SizesOf(scores.shape).classes) +
         (info.outputs.size() > 1 ? 0 : ScratchBytes<std::byte>(bytes)) + kScratchSlack;
}

size_t SoftmaxLoss::BackwardScratch(const InferContext& context, const LayerInfo&, int) const {
  return ScratchBytes<double>(SizesOf(context.inputs[0].shape).classes) + kScratchSlack;
}

void SoftmaxLoss::Forward(const ForwardArgs& args) const {
  const SoftmaxSize sizes = SizesOf(args.inputs[0].shape());
  const double divisor = Divisor(args.inputs[0].shape(), args.inputs[1]);
  ScratchCutter scratch(args.scratch);
  const std::span<double> class_scratch(scratch.Take<double>(sizes.classes),
                                        static_cast<size_t>(sizes.classes));
  DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
    T* prob = nullptr;
    if (args.outputs.size() > 1) {
      prob = args.outputs[1].data<T>();
    } else if (!args.saved[0].empty()) {
      prob = args.saved[0].data<T>();
    } else {
      prob = scratch.Take<T>(args.inputs[0].count());
    }
    const int threads = args.context.threads();
    SoftmaxForward(threads, sizes, args.inputs[0].data<T>(), prob);
    SoftmaxBatch<T> batch{.threads = threads,
                          .sizes = sizes,
                          .ignored = ignored_,
                          .prob = prob,
                          .inputs = args.inputs,
                          .class_scratch = class_scratch};
    SetLabels(args.inputs[0].shape(), args.inputs[1], &batch);
    args.outputs[0].data<T>()[0] = static_cast<T>(Sum(batch) / divisor);
  });
}

void SoftmaxLoss::Backward(const BackwardArgs& args) const {
  const ConstTensorView& probabilities =
      args.output_grads.size() > 1 ? args.outputs[1] : args.saved[0];
  const SoftmaxSize sizes = SizesOf(probabilities.shape());
  const double divisor = Divisor(probabilities.shape(), args.inputs[1]);
  ScratchCutter scratch(args.scratch);
  const std::span<double> class_scratch(scratch.Take<double>(sizes.classes),
                                        static_cast<size_t>(sizes.classes));
  DispatchFloat(probabilities.dtype(), [&]<typename T>(T) {
    SoftmaxBatch<T> batch{.threads = args.context.threads(),
                          .sizes = sizes,
                          .ignored = ignored_,
                          .prob = probabilities.data<T>(),
                          .inputs = args.inputs,
                          .class_scratch = class_scratch};
    SetLabels(probabilities.shape(), args.inputs[1], &batch);
    const double weight = args.output_grads[0].data<T>()[0];
    T* dx = args.input_grads[0].data<T>();
    Gradient(batch, weight / divisor, dx);
    if (args.output_grads.size() > 1) {
      AddSoftmaxGradient(batch, args.output_grads[1].data<T>(), dx);
    }
  });
}

SoftmaxSize SoftmaxLoss::SizesOf(const Shape& scores) const {
  return ClassSize(*this, scores, axis_, axis_field_);
}

template <typename T>
void SoftmaxLoss::SetLabels(const Shape& scores, const ConstTensorView& labels,
                            SoftmaxBatch<T>* batch) const {
  (AreTargets(scores, labels.shape()) ? batch->targets : batch->labels) = labels.data<T>();
}

double SoftmaxLoss::Divisor(const Shape& scores, const ConstTensorView& labels) const {
  const SoftmaxSize sizes = SizesOf(scores);
  const int64_t all = sizes.outer * sizes.inner;
  int64_t counted = all;
  if (AreTargets(scores, labels.shape())) {
    CheckTargets(*this, labels);
  } else {
    counted = CheckLabels(*this, labels,
                          {.classes = sizes.classes, .inner = sizes.inner, .ignored = ignored_});
  }
  return normalizer_.Divisor({.outer = sizes.outer, .all = all, .counted = counted});
}

}  // namespace crema
