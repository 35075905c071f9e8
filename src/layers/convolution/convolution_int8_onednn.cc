// Convolution on blobs of bytes by oneDNN: implementation "int8", which writes bytes, and variants
// that write floats for layers that take nothing else.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>

#include "core/strings.h"
#include "crema.pb.h"
#include "graph/has_packed_weights.h"
#include "layers/convolution/conv_epilogue.h"
#include "layers/convolution/convolution_blocked.h"
#include "layers/int8_ranges.h"
#include "math/int8_conv.h"
#include "math/int8_weights.h"
#include "math/scratch.h"

namespace crema {
namespace {

const Convolution& ConvolutionOf(const OpDesc& query) {
  return static_cast<const Convolution&>(query.layer);
}

// Variant of the implementation. `fast` requires that oneDNN has more than its reference.
struct Kind {
  MemoryFormat output = {Layout::kNHWC, DType::kU8};
  bool fast = true;

  bool GivesBytes() const { return output.type == DType::kU8; }
  std::string Name() const {
    const char* gives = GivesBytes()                     ? ""
                        : output.layout == Layout::kNCHW ? ", plain output"
                                                         : ", blocked output";
    return StrCat("int8", fast ? "" : ", reference", gives);
  }
};

// Returns the input of a fused addition that the layers before it do not produce.
int AddedBottom(const OpDesc& query, const Layer& sum) {
  const Layer* before = &query.layer;
  for (const Layer* layer : query.fused) {
    if (layer == &sum) break;
    before = layer;
  }
  return before->param().top(0) == sum.param().bottom(0) ? 1 : 0;
}

Int8Scale AddedScale(const OpDesc& query) {
  for (const Layer* layer : query.fused) {
    if (layer->param().bottom_size() == 2) return InputScale(*layer, AddedBottom(query, *layer));
  }
  return {};
}

Int8ConvConfig ConfigOf(const Kind& kind, const OpDesc& query) {
  const ConvGeometry g = MakeConvGeometry(query.layer, query.context.inputs[0].shape);
  const ConvEpilogue epilogue(ConvolutionOf(query), query.fused);
  CREMA_CHECK(epilogue.possible());
  return {.shape = BlockedShapeOf(g),
          .x = InputScale(query.layer, 0),
          .bytes_out = kind.GivesBytes(),
          .y = kind.GivesBytes() ? OutputScale(LastLayer(query), 0) : Int8Scale{},
          .bias = ConvolutionOf(query).has_bias(),
          .affine = epilogue.affine(),
          .sum = epilogue.sum(),
          .added = AddedScale(query),
          .relu = epilogue.relu(),
          .threads = query.threads};
}

Support Supports(const Kind& kind, const OpDesc& query) {
  const Support support = SupportsInt8Pixels(query, 1, kind.GivesBytes() ? 1 : 0);
  if (!support.yes) return support;
  if (query.context.inputs.size() != 1) return Support::No("is for one bottom");
  const ConvGeometry g = MakeConvGeometry(query.layer, query.context.inputs[0].shape);
  if (g.channel_axis != 1) return Support::No("is for channels on axis 1");
  if (!PaddedViewIsReasonable(g)) {
    return Support::No("pad, stride or dilation reach far beyond the image");
  }
  const Support exact = SumsAreExact(query, g.GroupDepth());
  if (!exact.yes) return exact;
  // oneDNN 2.6 multiplies the sums of other grouped convolutions by the factors of neighbouring
  // channels.
  const bool depthwise = g.in_channels == g.groups && g.out_channels == g.groups;
  if (g.groups > 1 && !depthwise && g.GroupOutputs() % ChannelBlock() != 0) {
    return Support::No(StrCat("is for groups of whole blocks of ", ChannelBlock(), " outputs"));
  }
  // With AVX2 oneDNN 2.6 gives wrong numbers for some of them.
  if (depthwise && g.groups > 1 && ChannelBlock() == 8) {
    return Support::No("needs AVX-512 for groups of one channel");
  }
  if (!kind.fast) return {};
  try {
    if (!Int8Conv(ConfigOf(kind, query)).IsReference()) return {};
  } catch (const Error& error) {
    return Support::No(error.what());
  }
  return Support::No("oneDNN has its slow reference only for these windows");
}

bool HasRanges(const Layer& layer) {
  const Int8Ranges& ranges = layer.param().int8();
  return ranges.top_size() == 1 && ranges.bottom_size() == layer.param().bottom_size();
}

bool CanFuse(const Kind& kind, const OpDesc& query) {
  if (!ConvolutionCanFuse(query)) return false;
  const auto otherwise = [&](const Layer* layer) {
    return layer->param().has_precision() && layer->param().precision() != query.precision;
  };
  if (std::ranges::any_of(query.fused, otherwise)) return false;
  const bool sum = ConvEpilogue(ConvolutionOf(query), query.fused).sum();
  if (!kind.GivesBytes()) return !sum;
  return std::ranges::all_of(query.fused, [](const Layer* layer) { return HasRanges(*layer); });
}

struct State final : ImplementationState, HasPackedWeights {
  State(const OpDesc& query, const Kind& kind)
      : conv(ConfigOf(kind, query)),
        epilogue(query),
        plain_output(kind.output.layout == Layout::kNCHW) {}
  SharedPackedWeights ExportPacked() const override { return conv.ExportPacked(); }
  bool ImportPacked(const SharedPackedWeights& shared) override {
    return conv.ImportPacked(shared);
  }

  Int8Conv conv;
  ConvEpilogueNumbers epilogue;
  bool plain_output;
};

void Forward(const Layer&, const ForwardArgs& args) {
  auto& state = *static_cast<State*>(args.implementation_state);
  const ConvParameters parameters = state.epilogue.Read(args);
  state.conv.Forward(args.inputs[0].raw(), parameters, state.epilogue.AddedOf(args),
                     args.outputs[0].raw(), args.weights_fixed, args.scratch);
}

// oneDNN writes floats pixel by pixel, which are then copied to the output's layout.
void ForwardToFloats(const Layer&, const ForwardArgs& args) {
  auto& state = *static_cast<State*>(args.implementation_state);
  const ConvParameters parameters = state.epilogue.Read(args);
  const Shape& y = args.outputs[0].shape();
  ScratchCutter cutter(args.scratch);
  auto* pixels = cutter.Take<float>(y.count());
  const std::span<std::byte> own(cutter.Take<std::byte>(static_cast<int64_t>(state.conv.Scratch())),
                                 state.conv.Scratch());
  state.conv.Forward(args.inputs[0].raw(), parameters, nullptr, pixels, args.weights_fixed, own);
  const auto copy = state.plain_output ? PixelsToPlain : PixelsToBlocked;
  copy(args.context.threads(), y[0], y[1], y.count(2), pixels, args.outputs[0].data<float>());
}

// Returns the estimated time, at the rates that oneDNN reached on full blocks of channels
// (bench/results/int8.md). With one channel per group it takes longer than in single precision.
double Seconds(const Kind& kind, const OpDesc& query) {
  constexpr double kWithVnni = 350e9, kWithoutVnni = 130e9;  // products a second of a thread
  constexpr double kDepthwise = 14e9;
  constexpr double kReferenceProductsPerSecond = 100e6;
  const double products = static_cast<double>(query.info.macs) / query.threads;
  if (!kind.fast) return products / kReferenceProductsPerSecond;
  const ConvGeometry g = MakeConvGeometry(query.layer, query.context.inputs[0].shape);
  if (g.groups > 1 && g.in_channels == g.groups) return products / kDepthwise;
  const auto block = static_cast<double>(ChannelBlock());
  const auto outputs = static_cast<double>(g.GroupOutputs());
  const double fill = outputs / (std::ceil(outputs / block) * block);
  const bool vnni = query.processor.vnni.value_or(LargestInt8Weight() == 127);
  return products / (fill * (vnni ? kWithVnni : kWithoutVnni));
}

size_t Scratch(const Kind& kind, const OpDesc& query) {
  const size_t own = Int8Conv(ConfigOf(kind, query)).Scratch();
  if (kind.GivesBytes()) return own;
  return ScratchBytes<float>(query.info.outputs[0].shape.count()) +
         ScratchBytes<std::byte>(static_cast<int64_t>(own)) + kScratchSlack;
}

class Int8Convolution final : public FunctionImplementation {
 public:
  explicit Int8Convolution(const Kind& kind)
      : FunctionImplementation({.name = kind.Name(),
                                .input_format = {Layout::kNHWC, DType::kU8},
                                .output_format = kind.output,
                                .rounds_weights = true},
                               {.forward = kind.GivesBytes() ? crema::Forward : ForwardToFloats}),
        kind_(kind) {}

  bool CanFuse(const OpDesc& op) const override { return crema::CanFuse(kind_, op); }
  std::optional<double> Seconds(const OpDesc& op) const override {
    return crema::Seconds(kind_, op);
  }
  Needs NeedsOf(const OpDesc& op) const override {
    return {.forward_scratch = Scratch(kind_, op),
            .state_bytes = Int8Conv(ConfigOf(kind_, op)).PackedBytes()};
  }
  std::unique_ptr<ImplementationState> MakeState(const OpDesc& op) const override {
    auto state = std::make_unique<State>(op, kind_);
    state->conv.Prepare();
    return state;
  }

 private:
  Support SupportsLayer(const OpDesc& op) const override { return crema::Supports(kind_, op); }

  const Kind kind_;
};

}  // namespace

std::vector<ImplementationPtr> Int8ConvolutionImplementations() {
  std::vector<ImplementationPtr> implementations;
  for (const bool fast : {true, false}) {
    for (const MemoryFormat output :
         {MemoryFormat{Layout::kNHWC, DType::kU8}, {}, {Layout::kBlocked}}) {
      implementations.push_back(std::make_shared<Int8Convolution>(Kind{output, fast}));
    }
  }
  return implementations;
}

}  // namespace crema
