// BatchNorm, Scale and ReLU fused. Forward reads x twice (once with running statistics). Backward
// reads x and dy twice and does not need y, since the mask of the ReLU follows from x. With n = (x
// - mean) * inverse, y = relu(scale * n + bias) and d = dy masked by the ReLU:
//   dscale = sum d * n, dbias = sum d, dx = scale * inverse * (d - dbias / N - n * dscale / N).
// With running statistics there is no backward pass.
#include <algorithm>
#include <cmath>
#include <utility>

#include "core/strings.h"
#include "crema.pb.h"
#include "layers/blocked_implementation.h"
#include "layers/channel_affine.h"
#include "layers/is_residual_add.h"
#include "layers/normalization/batch_norm_base.h"
#include "layers/normalization/norm_epilogue.h"
#include "math/blocked_batch_norm.h"
#include "math/scratch.h"

namespace crema {
namespace {

ChannelBlocks BlocksOf(const Shape& shape, bool channels_last = false) {
  return {shape[0], shape[1], shape.count(2), channels_last};
}

const float* DataOrNull(std::span<const ConstTensorView> views, size_t index) {
  return index < views.size() && !views[index].empty() ? views[index].data<float>() : nullptr;
}

void AddTo(const TensorView& gradient, const double* sums) {
  if (gradient.empty()) return;
  float* to = gradient.data<float>();
  for (int64_t c = 0; c < gradient.count(); ++c) to[c] += static_cast<float>(sums[c]);
}

}  // namespace

NormEpilogue::NormEpilogue(std::span<const Layer* const> fused) {
  for (const Layer* layer : fused) {
    const LayerParameter& param = layer->param();
    const auto* affine = dynamic_cast<const ChannelAffine*>(layer);
    if (param.type() == "Scale" && affine != nullptr && !scale && !sum && !relu.on &&
        affine->IsChannelAffine(param.phase())) {
      scale = true;
      bias = affine->AffineBlobs() == 2;
    } else if (IsResidualAdd(param) && !sum && !relu.on) {
      sum = true;
    } else if (param.type() == "ReLU" && !relu.on && param.relu_param().negative_slope() >= 0) {
      relu = {true, param.relu_param().negative_slope()};
    } else {
      possible = false;
    }
  }
}

bool BatchNormBase::CanFuse(const OpDesc& query) const {
  return (UsesBatch(query.context.phase) || !query.backward) && GoesByChannels() &&
         NormEpilogue(query.fused).possible;
}

LayerInfo BatchNormBase::FusedInfo(const OpDesc& query) {
  LayerInfo info = query.info;
  if (query.fused.empty()) return info;
  const int64_t channels = query.context.inputs[0].shape[1];
  info.in_place = !query.backward;
  info.saved = {{{2 * channels}, DType::kF64}};  // means, then inverses
  info.backward_reads_input = {true};
  // The mask of the ReLU follows from x, or after a sum from y. y is kept rather than the addend z,
  // since the next layer mostly reads y in its backward pass too.
  const NormEpilogue epilogue(query.fused);
  info.backward_reads_output = {epilogue.sum && epilogue.relu.on};
  return info;
}

size_t BatchNormBase::FusedScratch(const OpDesc& query) {
  const ChannelBlocks blocks = BlocksOf(query.context.inputs[0].shape);
  return ScratchBytes<double>(ChannelSumsScratch(blocks)) +
         ScratchBytes<double>(4 * blocks.channels + 1) + 2 * kScratchSlack;
}

// Sets y = relu((x - center) * factor + shift), with the same values forward and backward.
void BatchNormBase::SetAffine(std::span<const ConstTensorView> parameters, const double* mean,
                              const double* inverse, FusedNormState* state) const {
  const size_t own = rule_.blobs.size();
  const float* scale = state->epilogue.scale ? DataOrNull(parameters, own) : nullptr;
  const float* bias = state->epilogue.bias ? DataOrNull(parameters, own + 1) : nullptr;
  for (size_t c = 0; c < state->center.size(); ++c) {
    state->center[c] = static_cast<float>(mean[c]);
    state->factor[c] = static_cast<float>(inverse[c] * (scale == nullptr ? 1 : double{scale[c]}));
    state->shift[c] = bias == nullptr ? 0 : bias[c];
  }
}

// Saves means and inverses; the inverses only without fused layers.
template <typename T>
void BatchNormBase::RunByChannels(const ForwardArgs& args) const {
  auto& state = *static_cast<FusedNormState*>(args.implementation_state);
  const Shape& shape = args.inputs[0].shape();
  const ChannelBlocks blocks = BlocksOf(shape, state.channels_last);
  if (blocks.Count() == 0 && SyncOf(args.context, args.phase) == nullptr) return;
  const int threads = args.context.threads();
  const auto channels = static_cast<size_t>(blocks.channels);
  ScratchCutter cutter(args.scratch);
  double* sums = cutter.Take<double>(ChannelSumsScratch(blocks));
  double* mean = cutter.Take<double>(4 * blocks.channels + 1);
  const std::span<double> moments(mean, 2 * channels + 1);
  double* variance = mean + channels;
  double* saved =
      args.saved.empty() || args.saved[0].empty() ? nullptr : args.saved[0].data<double>();
  double* inverse = saved == nullptr ? mean + moments.size()
                    : state.alone    ? saved
                                     : saved + channels;
  const T* x = args.inputs[0].data<T>();
  if (UsesBatch(args.phase)) {
    if (blocks.Count() > 0) ChannelMoments(threads, blocks, x, mean, variance, sums);
    UseMoments<float>(args, blocks.Values(), moments);
  } else {
    ReadStored<float>(args.parameters, blocks.channels, mean, variance);
  }
  if (blocks.Count() == 0) return;
  for (size_t c = 0; c < channels; ++c) inverse[c] = 1 / std::sqrt(variance[c] + rule_.eps);
  if (saved != nullptr && !state.alone) std::copy_n(mean, channels, saved);
  SetAffine(args.parameters, mean, inverse, &state);
  NormalizeChannels(threads, blocks, x, state.center.data(), state.factor.data(),
                    state.shift.data(), state.epilogue.relu, args.outputs[0].data<T>());
}

template <typename T>
void BatchNormBase::RunFused(const BackwardArgs& args) const {
  auto& state = *static_cast<FusedNormState*>(args.implementation_state);
  const ChannelBlocks blocks = BlocksOf(args.inputs[0].shape(), state.channels_last);
  RankSums* const ranks = SyncOf(args.context, args.phase);
  if (blocks.Count() == 0 && ranks == nullptr) return;
  const int threads = args.context.threads();
  const auto channels = static_cast<size_t>(blocks.channels);
  ScratchCutter cutter(args.scratch);
  double* partial = cutter.Take<double>(ChannelSumsScratch(blocks));
  double* sums = cutter.Take<double>(2 * blocks.channels + 1);
  double* products = sums + channels;
  const double* mean = args.saved[0].data<double>();
  const double* inverse = mean + channels;
  SetAffine(args.parameters, mean, inverse, &state);
  const NormalizedGradsOf<T> grads{.x = args.inputs[0].data<T>(),
                                   .dy = args.output_grads[0].data<T>(),
                                   .center = state.center.data(),
                                   .factor = state.factor.data(),
                                   .shift = state.shift.data(),
                                   .relu = state.epilogue.relu};
  std::fill_n(sums, 2 * channels, 0.0);
  if (blocks.Count() > 0) NormalizedSums(threads, blocks, grads, sums, products, partial);
  for (size_t c = 0; c < channels; ++c) products[c] *= inverse[c];
  const size_t own = rule_.blobs.size();
  if (state.epilogue.scale) AddTo(args.parameter_grads[own], products);
  if (state.epilogue.bias) AddTo(args.parameter_grads[own + 1], sums);
  if (args.input_grads[0].empty()) return;
  const double values =
      SumWithCount(ranks, static_cast<double>(blocks.Values()), {sums, 2 * channels + 1});
  if (blocks.Count() == 0) return;
  for (size_t c = 0; c < channels; ++c) {
    const double factor = state.factor[c];
    state.offset[c] = static_cast<float>(factor * sums[c] / values);
    state.slope[c] = static_cast<float>(factor * inverse[c] * products[c] / values);
  }
  NormalizedToInput(threads, blocks, grads, state.factor.data(), state.offset.data(),
                    state.slope.data(), args.input_grads[0].data<T>());
}

// Uses n = y with the statistics of the batch; otherwise the layer is y = factor * x + shift.
template <typename T>
void BatchNormBase::RunAlone(const BackwardArgs& args) const {
  auto& state = *static_cast<FusedNormState*>(args.implementation_state);
  const ChannelBlocks blocks = BlocksOf(args.output_grads[0].shape(), state.channels_last);
  RankSums* const ranks = SyncOf(args.context, args.phase);
  if ((blocks.Count() == 0 && ranks == nullptr) || args.input_grads[0].empty()) return;
  const int threads = args.context.threads();
  const auto channels = static_cast<size_t>(blocks.channels);
  const double* inverse = args.saved[0].data<double>();
  const T* dy = args.output_grads[0].data<T>();
  T* dx = args.input_grads[0].data<T>();
  std::ranges::fill(state.center, 0.0F);
  std::ranges::fill(state.offset, 0.0F);
  std::transform(inverse, inverse + channels, state.factor.begin(),
                 [](double v) { return static_cast<float>(v); });
  if (!UsesBatch(args.phase)) {
    return NormalizeChannels(threads, blocks, dy, state.center.data(), state.factor.data(),
                             state.offset.data(), {}, dx);
  }
  ScratchCutter cutter(args.scratch);
  double* partial = cutter.Take<double>(ChannelSumsScratch(blocks));
  double* sums = cutter.Take<double>(2 * blocks.channels + 1);
  double* products = sums + channels;
  const NormalizedGradsOf<T> grads{
      .x = args.outputs[0].data<T>(), .dy = dy, .center = state.center.data()};
  std::fill_n(sums, 2 * channels, 0.0);
  if (blocks.Count() > 0) NormalizedSums(threads, blocks, grads, sums, products, partial);
  const double values =
      SumWithCount(ranks, static_cast<double>(blocks.Values()), {sums, 2 * channels + 1});
  if (blocks.Count() == 0) return;
  for (size_t c = 0; c < channels; ++c) {
    state.offset[c] = static_cast<float>(inverse[c] * sums[c] / values);
    state.slope[c] = static_cast<float>(inverse[c] * products[c] / values);
  }
  NormalizedToInput(threads, blocks, grads, state.factor.data(), state.offset.data(),
                    state.slope.data(), dx);
}

template <typename T>
void BatchNormBase::RunByChannels(const BackwardArgs& args) const {
  const auto& state = *static_cast<FusedNormState*>(args.implementation_state);
  state.alone ? RunAlone<T>(args) : RunFused<T>(args);
}

// Computes blocked and channels-last blobs. A layer with a scale and shift of its own is computed
// as by the native implementation.
template <typename T>
class BatchNormBase::Blocked final : public FunctionImplementation {
 public:
  explicit Blocked(MemoryFormat format) : FunctionImplementation(FactsOf(format)) {}

  bool CanFuse(const OpDesc& op) const override {
    return Norm(op.layer).CanFuse(op) && !NormEpilogue(op.fused).sum;
  }
  LayerInfo Info(const OpDesc& op) const override { return FusedInfo(op); }
  Needs NeedsOf(const OpDesc& op) const override {
    if (!Norm(op.layer).GoesByChannels()) return FunctionImplementation::NeedsOf(op);
    const size_t scratch = FusedScratch(op);
    return {.forward_scratch = scratch, .backward_scratch = op.backward ? scratch : 0};
  }
  std::unique_ptr<ImplementationState> MakeState(const OpDesc& op) const override {
    if (!Norm(op.layer).GoesByChannels()) return nullptr;
    return std::make_unique<FusedNormState>(op.fused, op.context.inputs[0].shape[1],
                                            input_format.layout == Layout::kNHWC);
  }
  void Forward(const Layer& layer, const ForwardArgs& args) const override { Run(layer, args); }
  void Backward(const Layer& layer, const BackwardArgs& args) const override { Run(layer, args); }

 private:
  static ImplementationFacts FactsOf(MemoryFormat format) {
    return {.name = StrCat(format.layout == Layout::kNHWC ? "NHWC" : "blocked",
                           format.type ? " bf16" : ""),
            .input_format = format,
            .output_format = format};
  }
  static const BatchNormBase& Norm(const Layer& layer) {
    return static_cast<const BatchNormBase&>(layer);
  }
  template <typename Args>
  static void Run(const Layer& layer, const Args& args) {
    if (args.implementation_state != nullptr) return Norm(layer).template RunByChannels<T>(args);
    Norm(layer).Run(args, {Layout::kBlocked});
  }
  Support SupportsLayer(const OpDesc& op) const override {
    if (!std::is_same_v<T, float> && !Norm(op.layer).GoesByChannels()) {
      return Support::No("is for layers without a scale and shift of their own");
    }
    if (Norm(op.layer).rule_.axis != 1) return Support::No("is for channels on axis 1");
    if (std::is_same_v<T, BFloat16>) {
      if (const Support stores = StoresBFloat16(op); !stores.yes) return stores;
    }
    return SupportsWholeBlocks(op);
  }
};

std::vector<ImplementationPtr> BatchNormBase::BlockedImplementations() {
  return {std::make_shared<Blocked<float>>(MemoryFormat{Layout::kBlocked}),
          std::make_shared<Blocked<BFloat16>>(MemoryFormat{Layout::kBlocked, DType::kBF16}),
          std::make_shared<Blocked<BFloat16>>(MemoryFormat{Layout::kNHWC, DType::kBF16})};
}

}  // namespace crema
