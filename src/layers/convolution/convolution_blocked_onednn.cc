// Convolution on blocked blobs by oneDNN. The implementations are "onednn", and "onednn, plain
// input" for the first convolution of a net, whose few channels would fill a small part of a block.
// Each exists in single precision and on bfloat16 blobs. "onednn NHWC bf16" is for processors with
// AMX: oneDNN multiplies by tiles on this layout only.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "core/strings.h"
#include "graph/has_packed_weights.h"
#include "layers/convolution/conv_matmul.h"
#include "layers/convolution/convolution_blocked.h"
#include "math/blocked_conv.h"
#include "math/cpu/onednn/conv_rates.h"
#include "plan/precision.h"

namespace crema {

BlockedConvShape BlockedShapeOf(const ConvGeometry& g) {
  BlockedConvShape shape{.batch = g.batch,
                         .groups = g.groups,
                         .in_channels = g.in_channels,
                         .out_channels = g.out_channels,
                         .h = {},
                         .w = {}};
  const auto axis = [&](size_t i) {
    const ConvWindow& w = g.window;
    return BlockedConvShape::Axis{w.in[i],     w.out[i], w.kernel[i],
                                  w.stride[i], w.pad[i], w.dilation[i]};
  };
  shape.h = axis(0);
  shape.w = axis(1);
  return shape;
}

namespace {

// Returns the filled fraction of the blocks that hold the channels of a group.
double FillOf(int64_t channels) {
  const int64_t block = ChannelBlock();
  const int64_t filled = (channels + block - 1) / block * block;
  return static_cast<double>(channels) / static_cast<double>(filled);
}

bool IsDepthwise(const ConvGeometry& g) {
  return g.in_channels == g.groups && g.out_channels == g.groups;
}

}  // namespace

BlockedConvConfig BlockedConfigOf(const OpDesc& query, bool plain_input, bool bf16) {
  const auto& convolution = static_cast<const Convolution&>(query.layer);
  const ConvGeometry g = MakeConvGeometry(query.layer, query.context.inputs[0].shape);
  const ConvEpilogue epilogue(convolution, query.fused);
  CREMA_CHECK(epilogue.possible_with_activation());
  return {.shape = BlockedShapeOf(g),
          .plain_input = plain_input,
          .bfloat16 = bf16,
          .bias = convolution.has_bias(),
          .affine = epilogue.affine(),
          .sum = epilogue.sum(),
          .relu = epilogue.relu(),
          .activation = epilogue.activation(),
          .backward = query.backward,
          .backward_to_input = query.to_input,
          .y_stride = query.output_stride,
          .threads = query.threads};
}

// With a strided output, images are distributed among threads, and no thread should wait long for
// the others.
Support StridedOutputPays(const OpDesc& query) {
  const int64_t batch = query.info.outputs[0].shape[0];
  if (batch % query.threads == 0 || batch >= 32 * query.threads) return {};
  return Support::No("threads would wait for each other's images");
}

// Must depend neither on the batch nor on the spatial sizes of the input.
Support SupportsBlockedGeometry(const OpDesc& query,
                                ConvGeometry (*geometry)(const Layer&, const Shape&)) {
  if (ChannelBlock() == 0) return Support::No("needs a processor with AVX2 or AVX-512");
  if (query.deterministic) return Support::No("its bits depend on the number of threads");
  if (query.context.dtype != DType::kF32) return Support::No("is for f32");
  if (query.context.inputs.size() != 1) return Support::No("is for one bottom");
  if (query.context.inputs[0].shape.axes() != 4) return Support::No("is for N x C x H x W");
  const ConvGeometry g = geometry(query.layer, query.context.inputs[0].shape);
  if (g.channel_axis != 1) return Support::No("is for channels on axis 1");
  if (!PaddedViewIsReasonable(g)) {
    return Support::No("pad, stride or dilation reach far beyond the image");
  }
  const int64_t block = ChannelBlock();
  const bool whole =
      g.in_channels / g.groups % block == 0 && g.out_channels / g.groups % block == 0;
  if (g.groups > 1 && !whole && !IsDepthwise(g)) {
    return Support::No(StrCat("is for groups of whole blocks of ", block, " channels"));
  }
  return {};
}

Support SupportsBlockedConv(const OpDesc& query) {
  return SupportsBlockedGeometry(query, MakeConvGeometry);
}

Support HasFastBlockedConv(const BlockedConvConfig& config) {
  try {
    if (!BlockedConv(config).IsReference()) return {};
  } catch (const Error& error) {
    return Support::No(error.what());
  }
  return Support::No("oneDNN has its slow reference only for these windows");
}

bool ConvolutionCanFuse(const OpDesc& query, bool activations) {
  if (query.backward) return CanFuseRelu(query);
  const ConvEpilogue epilogue(static_cast<const Convolution&>(query.layer), query.fused);
  return activations ? epilogue.possible_with_activation() : epilogue.possible();
}

BlockedConvGrads BlockedGradsOf(const Layer& layer, const BackwardArgs& args) {
  const auto& convolution = static_cast<const Convolution&>(layer);
  const auto floats_or_null = [](const TensorView& view) {
    return view.empty() ? nullptr : view.data<float>();
  };
  BlockedConvGrads grads;
  grads.x = args.inputs[0].raw();
  grads.y = ReluOf(layer, args.fused).on ? args.outputs[0].raw() : nullptr;
  grads.dy = args.output_grads[0].raw();
  grads.y_stride = args.outputs[0].image_stride();
  grads.dy_stride = args.output_grads[0].image_stride();
  grads.weight = args.parameters[0].data<float>();
  grads.dx = args.input_grads[0].raw();
  grads.dweight = floats_or_null(args.parameter_grads[0]);
  grads.dbias = convolution.has_bias() ? floats_or_null(args.parameter_grads[1]) : nullptr;
  return grads;
}

namespace {

Support SupportsPlainInput(const OpDesc& query) {
  const Support blocked = SupportsBlockedConv(query);
  if (!blocked.yes) return blocked;
  const ConvGeometry g = MakeConvGeometry(query.layer, query.context.inputs[0].shape);
  if (g.groups > 1 || g.in_channels > 4) return Support::No("is for images of at most 4 channels");
  return {};
}

// Variant of the implementation. `fast` requires that oneDNN has more than its reference.
struct Kind {
  bool plain_input = false;
  bool bf16 = false;
  bool fast = true;
  bool channels_last = false;  // with bf16 only

  std::string Name() const {
    return StrCat("onednn", channels_last ? " NHWC" : "", bf16 ? " bf16" : "",
                  fast ? "" : ", reference", plain_input ? ", plain input" : "");
  }
  BlockedConvConfig ConfigOf(const OpDesc& query) const {
    BlockedConvConfig config = BlockedConfigOf(query, plain_input, bf16);
    config.channels_last = channels_last;
    return config;
  }
};

Support Supports(const Kind& kind, const OpDesc& query) {
  if (kind.bf16) {
    const Support stores = StoresBFloat16(query);
    if (!stores.yes) return stores;
    // The gradient would have to be widened, and data needs none.
    if (kind.plain_input && query.to_input) return Support::No("gives no gradient of its input");
  }
  const Support support = kind.plain_input ? SupportsPlainInput(query) : SupportsBlockedConv(query);
  if (!support.yes || !kind.fast) return support;
  return HasFastBlockedConv(kind.ConfigOf(query));
}

struct State final : ImplementationState, HasPackedWeights {
  State(const OpDesc& query, const Kind& kind) : conv(kind.ConfigOf(query)), epilogue(query) {}
  SharedPackedWeights ExportPacked() const override { return conv.ExportPacked(); }
  bool ImportPacked(const SharedPackedWeights& shared) override {
    return conv.ImportPacked(shared);
  }

  BlockedConv conv;
  ConvEpilogueNumbers epilogue;
};

double BFloat16Speedup(const Kind& kind, const OpDesc& query) {
  const ProcessorFacts& processor = query.processor;
  const auto& given =
      kind.channels_last ? processor.channels_last_speedup : processor.bfloat16_speedup;
  if (given) return *given;
  const onednn::BFloat16Gains gains = onednn::MeasuredBFloat16Gains();
  return kind.channels_last ? gains.channels_last : gains.blocked;
}

// Returns the estimated time, at the rate that oneDNN reaches on full blocks, or at that of its
// reference, which is hundreds of times lower; at least the time to read the weights.
double Seconds(const Kind& kind, const OpDesc& query) {
  constexpr double kProductsPerSecond = 100e9;    // per thread
  constexpr double kWeightBytesPerSecond = 28e9;  // per thread, from memory
  constexpr double kReferenceProductsPerSecond = 100e6;
  constexpr double kNeverSeconds = 1e6;
  const auto products = static_cast<double>(query.info.macs) / query.threads;
  if (!kind.fast) return products / kReferenceProductsPerSecond;
  const ConvGeometry g = MakeConvGeometry(query.layer, query.context.inputs[0].shape);
  const double gain = kind.bf16 ? BFloat16Speedup(kind, query) : 1;
  if (gain == 0) return kNeverSeconds;
  if (IsDepthwise(g)) {
    constexpr double kDepthwisePerSecond = 85e9, kElementsPerSecond = 20e9;  // per thread
    const auto elements = static_cast<double>(g.batch * (g.InImage() + g.OutImage()));
    return (products / kDepthwisePerSecond + elements / (kElementsPerSecond * query.threads)) /
           FillOf(g.groups);
  }
  const double fill =
      FillOf(g.out_channels / g.groups) * (kind.plain_input ? 1 : FillOf(g.in_channels / g.groups));
  const double weight_bytes = static_cast<double>(ConvWeightCount(g)) * (kind.bf16 ? 2 : 4);
  return std::max(products / (kProductsPerSecond * fill * gain),
                  weight_bytes / (kWeightBytesPerSecond * query.threads));
}

class OneDnnConvolution final : public Implementation {
 public:
  explicit OneDnnConvolution(const Kind& kind) : Implementation(FactsOf(kind)), kind_(kind) {}

  bool CanFuse(const OpDesc& op) const override {
    // oneDNN's code with tiles adds no other blob.
    const auto adds = [](const Layer* layer) { return layer->param().bottom_size() == 2; };
    if (kind_.channels_last && std::ranges::any_of(op.fused, adds)) return false;
    return ConvolutionCanFuse(op, true);
  }
  Support Accepts(const OpDesc& op) const override { return StridedOutputPays(op); }
  std::optional<double> Seconds(const OpDesc& op) const override {
    return crema::Seconds(kind_, op);
  }
  LayerInfo Info(const OpDesc& op) const override { return InfoWithRelu(op); }
  Needs NeedsOf(const OpDesc& op) const override {
    const BlockedConv conv(kind_.ConfigOf(op));
    return {.forward_scratch = conv.ForwardScratch(),
            .backward_scratch = op.backward ? conv.BackwardScratch() : 0,
            .state_bytes = conv.PackedBytes()};
  }
  std::unique_ptr<ImplementationState> MakeState(const OpDesc& op) const override {
    auto state = std::make_unique<State>(op, kind_);
    state->conv.Prepare();
    return state;
  }
  void Forward(const Layer&, const ForwardArgs& args) const override {
    auto& state = *static_cast<State*>(args.implementation_state);
    state.conv.Forward(args.inputs[0].raw(), state.epilogue.Read(args),
                       state.epilogue.AddedOf(args), args.outputs[0].raw(), args.weights_fixed,
                       args.scratch);
  }
  void Backward(const Layer& layer, const BackwardArgs& args) const override {
    static_cast<State*>(args.implementation_state)
        ->conv.Backward(BlockedGradsOf(layer, args), args.scratch);
  }

 private:
  static ImplementationFacts FactsOf(const Kind& kind) {
    MemoryFormat format{kind.channels_last ? Layout::kNHWC : Layout::kBlocked};
    if (kind.bf16) format.type = DType::kBF16;
    return {.name = kind.Name(),
            .input_format = kind.plain_input ? MemoryFormat{} : format,
            .output_format = format,
            .strided_output = !kind.channels_last};
  }
  Support SupportsLayer(const OpDesc& op) const override { return crema::Supports(kind_, op); }

  const Kind kind_;
};

}  // namespace

double BlockedConvSeconds(const OpDesc& query) { return Seconds(Kind{}, query); }

std::vector<ImplementationPtr> OneDnnConvolutionImplementations() {
  std::vector<ImplementationPtr> implementations = {WinogradConvolutionImplementation()};
  // Those without `fast` serve sessions whose inputs shrink below the reach of the filters; no plan
  // prefers them.
  for (const bool fast : {true, false}) {
    for (const bool bf16 : {false, true}) {
      for (const bool plain_input : {false, true}) {
        implementations.push_back(
            std::make_shared<OneDnnConvolution>(Kind{plain_input, bf16, fast}));
      }
    }
    implementations.push_back(std::make_shared<OneDnnConvolution>(
        Kind{.bf16 = true, .fast = fast, .channels_last = true}));
  }
  implementations.push_back(JoinedConvolutionImplementation());
  std::ranges::copy(Int8ConvolutionImplementations(), std::back_inserter(implementations));
  return implementations;
}

}  // namespace crema
