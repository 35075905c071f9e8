// Implementation "onednn, joined groups": convolutions whose groups are parts of a block of
// channels. Groups are joined to whole blocks, with weights of 0 between them: more products, but
// of blocked blobs at oneDNN's rate. Forward only.
#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "core/strings.h"
#include "layers/blocked_implementation.h"
#include "layers/convolution/convolution_blocked.h"

namespace crema {
namespace {

ConvGeometry GeometryOf(const OpDesc& query) {
  return MakeConvGeometry(query.layer, query.context.inputs[0].shape);
}

int64_t WholeChannels(int64_t channels) {
  return (channels + ChannelBlock() - 1) / ChannelBlock() * ChannelBlock();
}

// Returns the config of the convolution with joined groups. The channels that pad the last block
// are channels like others there, with weights of 0.
BlockedConvConfig JoinedConfigOf(const OpDesc& query) {
  BlockedConvConfig config = BlockedConfigOf(query, false);
  config.shape.in_channels = config.shape.out_channels = WholeChannels(config.shape.out_channels);
  config.shape.groups = config.shape.out_channels / ChannelBlock();
  return config;
}

// Returns whether the fused layers leave 0 where channels pad a block. Sums, and the shifts of
// affine layers, are 0 there.
bool KeepsZero(std::span<const Layer* const> fused) {
  constexpr std::array<std::string_view, 6> kKeepZero{"BN",   "BatchNorm", "Bias",
                                                      "ReLU", "Eltwise",   "Scale"};
  return std::ranges::all_of(fused, [&](const Layer* layer) {
    return std::ranges::find(kKeepZero, layer->param().type()) != kKeepZero.end();
  });
}

bool CanFuse(const OpDesc& query) {
  const int64_t channels = GeometryOf(query).out_channels;
  return ConvolutionCanFuse(query) && (channels % ChannelBlock() == 0 || KeepsZero(query.fused));
}

// Must depend neither on the batch nor on the spatial sizes of the input.
Support Supports(const OpDesc& query) {
  if (query.backward) return Support::No("computes no gradients");
  if (ChannelBlock() == 0) return Support::No("needs a processor with AVX2 or AVX-512");
  if (query.deterministic) return Support::No("its bits depend on the number of threads");
  if (query.context.dtype != DType::kF32) return Support::No("is for f32");
  if (query.context.inputs.size() != 1) return Support::No("is for one bottom");
  if (query.context.inputs[0].shape.axes() != 4) return Support::No("is for N x C x H x W");
  const ConvGeometry g = GeometryOf(query);
  if (g.channel_axis != 1) return Support::No("is for channels on axis 1");
  const int64_t width = g.in_channels / g.groups;
  if (g.groups == 1 || g.out_channels != g.in_channels || width == 1 || width == ChannelBlock() ||
      ChannelBlock() % width != 0) {
    return Support::No(StrCat("is for groups of which several fill a block of ", ChannelBlock(),
                              " channels, with as many outputs"));
  }
  if (!PaddedViewIsReasonable(g)) {
    return Support::No("pad, stride or dilation reach far beyond the image");
  }
  try {
    BlockedConv conv(JoinedConfigOf(query));
  } catch (const Error& error) {
    return Support::No(error.what());
  }
  return {};
}

// The parameters of a convolution, for joined groups.
class JoinedParameters {
 public:
  JoinedParameters(const ConvGeometry& g, int64_t window)
      : width_(g.in_channels / g.groups),
        channels_(g.out_channels),
        window_(window),
        weight_(static_cast<size_t>(WholeChannels(channels_) * ChannelBlock() * window)),
        bias_(static_cast<size_t>(WholeChannels(channels_))),
        factor_(bias_.size()),
        shift_(bias_.size()) {}

  // Returns pointers to values that the next call overwrites.
  ConvParameters Join(const ConvParameters& own) {
    const int64_t block = ChannelBlock();
    const int64_t row = width_ * window_;
    for (int64_t o = 0; o < channels_; ++o) {
      const int64_t first = o % block / width_ * width_;  // input channel within the block
      std::copy_n(own.weight + o * row, row, weight_.data() + (o * block + first) * window_);
    }
    return {.weight = weight_.data(),
            .bias = Widen(own.bias, &bias_),
            .factor = Widen(own.factor, &factor_),
            .shift = Widen(own.shift, &shift_)};
  }

 private:
  const float* Widen(const float* values, std::vector<float>* wide) const {
    if (values == nullptr) return nullptr;
    std::copy_n(values, channels_, wide->begin());
    return wide->data();
  }

  int64_t width_;  // channels of a group
  int64_t channels_;
  int64_t window_;  // weights from one input channel to one output channel
  std::vector<float> weight_, bias_, factor_, shift_;  // 0 in other places
};

struct State final : ImplementationState {
  explicit State(const OpDesc& query)
      : conv(JoinedConfigOf(query)),
        epilogue(query),
        joined(GeometryOf(query), query.info.parameters[0].shape.count(2)) {
    conv.Prepare();
  }

  BlockedConv conv;
  ConvEpilogueNumbers epilogue;
  JoinedParameters joined;
  ConvParameters parameters;
  bool fixed = false;  // `parameters` are those of the session
};

void Forward(const Layer&, const ForwardArgs& args) {
  auto& state = *static_cast<State*>(args.implementation_state);
  const ConvParameters own = state.epilogue.Read(args);
  const bool keep = args.weights_fixed && std::exchange(state.fixed, args.weights_fixed);
  if (!keep) state.parameters = state.joined.Join(own);
  state.conv.Forward(args.inputs[0].raw(), state.parameters, state.epilogue.AddedOf(args),
                     args.outputs[0].raw(), args.weights_fixed, args.scratch);
}

size_t ForwardScratch(const OpDesc& query) {
  return BlockedConv(JoinedConfigOf(query)).ForwardScratch();
}

size_t StateBytes(const OpDesc& query) {
  const BlockedConvConfig config = JoinedConfigOf(query);
  const auto floats =
      static_cast<size_t>(config.shape.WeightCount() + 3 * config.shape.out_channels);
  return BlockedConv(config).PackedBytes() + floats * sizeof(float);
}

double Seconds(const OpDesc& query) {
  constexpr double kProductsPerSecond = 120e9, kOfReference = 100e6;  // per thread
  const BlockedConvConfig config = JoinedConfigOf(query);
  const auto products = static_cast<double>(config.shape.batch * config.shape.WeightCount() *
                                            config.shape.h.out * config.shape.w.out);
  const bool slow = BlockedConv(config).IsReference();
  return products / query.threads / (slow ? kOfReference : kProductsPerSecond);
}

}  // namespace

ImplementationPtr JoinedConvolutionImplementation() {
  return MakeSimpleImplementation<StatefulImplementation<State>>(
      BlockedFacts("onednn, joined groups"), {.supports = Supports,
                                              .can_fuse = CanFuse,
                                              .forward = Forward,
                                              .forward_scratch = ForwardScratch,
                                              .state_bytes = StateBytes,
                                              .seconds = Seconds});
}

}  // namespace crema
