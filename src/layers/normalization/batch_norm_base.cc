#include "layers/normalization/batch_norm_base.h"

#include <algorithm>
#include <cmath>

#include "core/strings.h"
#include "crema.pb.h"
#include "layers/layer_axis.h"
#include "math/scratch.h"

namespace crema {
namespace {

enum Saved : size_t { kInverse, kNormal };

Shape ShapeOfBlob(int axes, int64_t channel_axis, int64_t channels) {
  std::vector<int64_t> dims(static_cast<size_t>(axes), 1);
  const int64_t at = axes == 1 ? 0 : std::min<int64_t>(channel_axis, axes - 1);
  dims[static_cast<size_t>(at)] = channels;
  return Shape(std::span<const int64_t>(dims));
}

template <typename T, typename View>
auto DataOrNull(const View& view) {
  return view.empty() ? nullptr : view.template data<T>();
}

// `moments` has the means and variances of n elements each, and room for one more. Replaces them by
// those of the elements of all ranks. Returns the number of these.
double MomentsOfRanks(RankSums* ranks, double n, std::span<double> moments) {
  const size_t channels = moments.size() / 2;
  double* const mean = moments.data();
  double* const variance = mean + channels;
  if (n == 0) std::ranges::fill(moments, 0.0);
  for (size_t c = 0; c < channels; ++c) {
    variance[c] = n * (variance[c] + mean[c] * mean[c]);
    mean[c] *= n;
  }
  moments.back() = n;
  ranks->SumNow(moments);
  const double all = moments.back();
  for (size_t c = 0; c < channels && all > 0; ++c) {
    mean[c] /= all;
    variance[c] = std::max(0.0, variance[c] / all - mean[c] * mean[c]);
  }
  return all;
}

template <typename Args>
auto At(const Args& views, int index) {
  using View = std::remove_cvref_t<decltype(views[0])>;
  return index == BatchNormRule::kNone ? View() : views[static_cast<size_t>(index)];
}

}  // namespace

bool BatchNormBase::UsesBatch(Phase phase) const {
  if (rule_.identity || rule_.stored == BatchNormRule::Stored::kAlways) return false;
  return rule_.stored == BatchNormRule::Stored::kNever || phase == TRAIN;
}

bool BatchNormBase::KeepsNormal() const {
  return rule_.scale != BatchNormRule::kNone || rule_.shift != BatchNormRule::kNone ||
         rule_.relu.on;
}

NormLayout BatchNormBase::Layout(const Shape& input, MemoryFormat format) const {
  const GroupLayout channels = format.layout == Layout::kBlocked
                                   ? BlockedChannelLayout(input)
                                   : ChannelLayout(input, static_cast<int>(rule_.axis));
  return {channels, channels};
}

LayerInfo BatchNormBase::Infer(const InferContext& context) const {
  const BlobSpec& input = context.inputs[0];
  const int64_t channels = Layout(input.shape).groups.Groups();
  LayerInfo info;
  info.outputs = {input};
  if (!UsesBatch(context.phase)) {
    info.reach =
        rule_.axis == 1 ? Reach::kPlace : ReachFromAxis(input.shape.CanonicalAxis(rule_.axis));
  }
  info.in_place = true;
  for (const BatchNormRule::Blob& blob : rule_.blobs) {
    info.parameters.push_back(
        {.role = blob.role,
         .shape = blob.single ? Shape{1} : ShapeOfBlob(rule_.blob_axes, rule_.axis, channels),
         .filler = blob.filler,
         .statistic = blob.statistic});
  }
  info.saved = {{{channels}, DType::kF64}};
  if (KeepsNormal()) info.saved.push_back(input);
  info.backward_reads_output = {rule_.relu.on || (!KeepsNormal() && UsesBatch(context.phase))};
  return info;
}

size_t BatchNormBase::ForwardScratch(const InferContext& context, const LayerInfo&, int) const {
  const NormLayout layout = Layout(context.inputs[0].shape);
  return ScratchBytes<double>(GroupNormalizeForwardScratch(layout) + 3 * layout.groups.Groups() +
                              1) +
         kScratchSlack;
}

size_t BatchNormBase::BackwardScratch(const InferContext& context, const LayerInfo&, int) const {
  const NormLayout layout = Layout(context.inputs[0].shape);
  const int64_t masked = rule_.relu.on ? context.inputs[0].shape.count() : 0;
  return ScratchBytes<double>(GroupNormalizeBackwardScratch(layout)) +
         ScratchBytes<double>(masked) + kScratchSlack;
}

template <typename T>
void BatchNormBase::ReadStored(std::span<const ConstTensorView> parameters, int64_t channels,
                               double* mean, double* variance) const {
  double factor = 1;
  if (rule_.factor != BatchNormRule::kNone) {
    factor = static_cast<double>(At(parameters, rule_.factor).template data<T>()[0]);
    factor = factor == 0 ? 0 : 1 / factor;
  }
  const T* stored_mean = At(parameters, rule_.mean).template data<T>();
  const T* stored_variance = At(parameters, rule_.variance).template data<T>();
  for (int64_t c = 0; c < channels; ++c) {
    mean[c] = factor * static_cast<double>(stored_mean[c]);
    variance[c] = factor * static_cast<double>(stored_variance[c]);
  }
}

bool BatchNormBase::IsChannelAffine(Phase phase) const {
  return rule_.axis == 1 && !UsesBatch(phase) && !rule_.relu.on;
}

void BatchNormBase::ReadChannelAffine(std::span<const ConstTensorView> parameters,
                                      std::span<double> factor, std::span<double> shift) const {
  const auto channels = static_cast<int64_t>(factor.size());
  std::ranges::fill(factor, 1.0);
  std::ranges::fill(shift, 0.0);
  if (!rule_.identity) {
    std::vector<double> variance(factor.size());
    ReadStored<float>(parameters, channels, shift.data(), variance.data());
    for (size_t c = 0; c < factor.size(); ++c) {
      factor[c] = 1 / std::sqrt(variance[c] + rule_.eps);
      shift[c] *= -factor[c];
    }
  }
  const float* scale = DataOrNull<float>(At(parameters, rule_.scale));
  const float* bias = DataOrNull<float>(At(parameters, rule_.shift));
  for (size_t c = 0; c < factor.size(); ++c) {
    const double s = scale == nullptr ? 1 : static_cast<double>(scale[c]);
    factor[c] *= s;
    shift[c] = shift[c] * s + (bias == nullptr ? 0 : static_cast<double>(bias[c]));
  }
}

template <typename T>
void BatchNormBase::UseMoments(const ForwardArgs& args, int64_t size,
                               std::span<double> moments) const {
  const size_t channels = moments.size() / 2;
  double* const mean = moments.data();
  double* const variance = mean + channels;
  auto n = static_cast<double>(size);
  if (RankSums* const ranks = SyncOf(args.context, args.phase)) {
    n = MomentsOfRanks(ranks, n, moments);
  }
  if (args.statistics.empty() || rule_.mean == BatchNormRule::kNone || n == 0) return;
  T* means = DataOrNull<T>(At(args.statistics, rule_.mean));
  T* variances = DataOrNull<T>(At(args.statistics, rule_.variance));
  if (means == nullptr || variances == nullptr) return;
  T* factor = rule_.factor == BatchNormRule::kNone
                  ? nullptr
                  : At(args.statistics, rule_.factor).template data<T>();
  const double before = factor == nullptr ? 1 : static_cast<double>(*factor);
  const StoredUpdate update = UpdateBy(n);
  if (factor != nullptr) *factor = static_cast<T>(update.Factor(before));
  for (size_t c = 0; c < channels; ++c) {
    means[c] = static_cast<T>(update.Mean(before, static_cast<double>(means[c]), mean[c]));
    variances[c] =
        static_cast<T>(update.Variance(before, static_cast<double>(variances[c]), variance[c]));
  }
}

void BatchNormBase::Run(const ForwardArgs& args, MemoryFormat format) const {
  const NormLayout layout = Layout(args.inputs[0].shape(), format);
  const int64_t channels = layout.groups.Groups();
  const int threads = args.context.threads();
  const bool saves = !args.saved.empty() && !args.saved[kInverse].empty();
  double* scratch = ScratchCutter(args.scratch)
                        .Take<double>(GroupNormalizeForwardScratch(layout) + 3 * channels + 1);
  const std::span<double> moments(scratch, static_cast<size_t>(2 * channels + 1));
  double* mean = scratch;
  double* variance = scratch + channels;
  scratch += moments.size();
  double* inverse = saves ? args.saved[kInverse].data<double>() : scratch;
  DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
    GroupNormalizeForward<T> pass;
    pass.x = args.inputs[0].data<T>();
    pass.y = args.outputs[0].data<T>();
    std::fill_n(inverse, channels, 1.0);
    if (!rule_.identity) {
      if (UsesBatch(args.phase)) {
        GroupMoments(threads, layout.groups, pass.x, mean, variance);
        UseMoments<T>(args, layout.groups.GroupSize(), moments);
      } else {
        ReadStored<T>(args.parameters, channels, mean, variance);
      }
      pass.center = mean;
      for (int64_t c = 0; c < channels; ++c) inverse[c] = 1 / std::sqrt(variance[c] + rule_.eps);
    }
    pass.inverse = inverse;
    pass.scale = DataOrNull<T>(At(args.parameters, rule_.scale));
    pass.shift = DataOrNull<T>(At(args.parameters, rule_.shift));
    if (saves && KeepsNormal()) pass.normal = args.saved[kNormal].data<T>();
    NormalizeGroups(threads, layout, pass, scratch + channels);
    if (rule_.relu.on) {
      AddRowBiasRelu<T>(1, args.outputs[0].count(), nullptr, rule_.relu, pass.y);
    }
  });
}

void BatchNormBase::Run(const BackwardArgs& args, MemoryFormat format) const {
  const Shape& shape = args.output_grads[0].shape();
  const NormLayout layout = Layout(shape, format);
  ScratchCutter cutter(args.scratch);
  double* scratch = cutter.Take<double>(GroupNormalizeBackwardScratch(layout));
  DispatchFloat(args.output_grads[0].dtype(), [&]<typename T>(T) {
    GroupNormalizeBackward<T> pass;
    pass.dy = args.output_grads[0].data<T>();
    pass.dx = DataOrNull<T>(args.input_grads[0]);
    pass.inverse = args.saved[kInverse].data<double>();
    pass.measured = UsesBatch(args.phase);
    pass.divisor = static_cast<double>(layout.groups.GroupSize());
    pass.ranks = SyncOf(args.context, args.phase);
    pass.scale = DataOrNull<T>(At(args.parameters, rule_.scale));
    pass.dscale = DataOrNull<T>(At(args.parameter_grads, rule_.scale));
    pass.dshift = DataOrNull<T>(At(args.parameter_grads, rule_.shift));
    if (rule_.relu.on) {
      T* masked = cutter.Take<T>(shape.count());
      MaskByOutput<T>(shape.count(), rule_.relu.slope, args.outputs[0].data<T>(), pass.dy, masked);
      pass.dy = masked;
    }
    if (KeepsNormal()) {
      pass.normal = args.saved[kNormal].data<T>();
    } else if (pass.measured) {
      pass.normal = args.outputs[0].data<T>();
    }
    NormalizeGroups(args.context.threads(), layout, pass, scratch);
  });
}

template void BatchNormBase::ReadStored<float>(std::span<const ConstTensorView>, int64_t, double*,
                                               double*) const;
template void BatchNormBase::UseMoments<float>(const ForwardArgs&, int64_t,
                                               std::span<double>) const;

}  // namespace crema
