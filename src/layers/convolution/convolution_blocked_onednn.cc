// Convolution on blocked blobs by oneDNN: rows "onednn", and "onednn, plain input" for the first
// convolution of a net, whose few channels would fill a small part of a block.
#include <memory>
#include <utility>
#include <vector>

#include "core/strings.h"
#include "layers/convolution/convolution_blocked.h"
#include "math/blocked_conv.h"

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

// Channels of a group that a block holds, of those that it could.
double FillOf(int64_t channels) {
  const int64_t block = ChannelBlock();
  const int64_t filled = (channels + block - 1) / block * block;
  return static_cast<double>(channels) / static_cast<double>(filled);
}

bool IsDepthwise(const ConvGeometry& g) {
  return g.in_channels == g.groups && g.out_channels == g.groups;
}

}  // namespace

BlockedConvConfig BlockedConfigOf(const KernelQuery& query, bool plain_input) {
  const auto& convolution = static_cast<const Convolution&>(query.layer);
  const ConvGeometry g = MakeConvGeometry(query.layer, query.context.inputs[0].shape);
  const ConvEpilogue epilogue(convolution, query.absorbed);
  CREMA_CHECK(epilogue.possible());
  return {.shape = BlockedShapeOf(g),
          .plain_input = plain_input,
          .bias = convolution.has_bias(),
          .affine = epilogue.affine(),
          .sum = epilogue.sum(),
          .relu = epilogue.relu(),
          .backward = query.backward,
          .backward_to_input = query.to_input,
          .threads = query.threads};
}

// Nothing here may depend on the batch or on the spatial extents of the input.
Support SupportsBlockedGeometry(const KernelQuery& query,
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
  if (g.groups > 1 && !whole && !(IsDepthwise(g) && g.groups % block == 0)) {
    return Support::No(StrCat("is for groups of whole blocks of ", block, " channels"));
  }
  return {};
}

Support SupportsBlockedConv(const KernelQuery& query) {
  return SupportsBlockedGeometry(query, MakeConvGeometry);
}

Support SupportsFastBlockedConv(const KernelQuery& query, bool plain_input) {
  const Support support = SupportsBlockedConv(query);
  if (!support.yes) return support;
  BlockedConvConfig config = BlockedConfigOf(query, plain_input);
  // Whether gradients of inputs are wanted is not known when formats are chosen; data want none.
  if (!plain_input) config.backward_to_input = config.backward;
  try {
    if (!BlockedConv(config).IsReference()) return {};
  } catch (const Error& error) {
    return Support::No(error.what());
  }
  return Support::No("oneDNN has its slow reference only for these windows");
}

bool ConvolutionAbsorbs(const KernelQuery& query) {
  return !query.backward &&
         ConvEpilogue(static_cast<const Convolution&>(query.layer), query.absorbed).possible();
}

ConvGrads BlockedGradsOf(const Layer& layer, const BackwardArgs& args) {
  const auto& convolution = static_cast<const Convolution&>(layer);
  const auto data_or_null = [](const TensorView& view) {
    return view.empty() ? nullptr : view.data<float>();
  };
  return {.x = args.inputs[0].data<float>(),
          .y = convolution.relu().on ? args.outputs[0].data<float>() : nullptr,
          .dy = args.output_grads[0].data<float>(),
          .weight = args.learned[0].data<float>(),
          .dx = data_or_null(args.input_grads[0]),
          .dweight = data_or_null(args.learned_grads[0]),
          .dbias = convolution.has_bias() ? data_or_null(args.learned_grads[1]) : nullptr};
}

namespace {

Support SupportsPlainInput(const KernelQuery& query) {
  const Support blocked = SupportsBlockedConv(query);
  if (!blocked.yes) return blocked;
  const ConvGeometry g = MakeConvGeometry(query.layer, query.context.inputs[0].shape);
  if (g.groups > 1 || g.in_channels > 4) return Support::No("is for images of at most 4 channels");
  return {};
}

Support SupportsFast(const KernelQuery& query) { return SupportsFastBlockedConv(query, false); }

Support SupportsFastPlainInput(const KernelQuery& query) {
  const Support support = SupportsPlainInput(query);
  return support.yes ? SupportsFastBlockedConv(query, true) : support;
}

struct State final : KernelState {
  State(const KernelQuery& query, bool plain_input)
      : conv(BlockedConfigOf(query, plain_input)), epilogue(query) {}
  BlockedConv conv;
  ConvEpilogueNumbers epilogue;
};

void Forward(const Layer&, const ForwardArgs& args) {
  auto& state = *static_cast<State*>(args.kernel_state);
  const ConvLearned learned = state.epilogue.Read(args);
  state.conv.Forward(args.inputs[0].data<float>(), learned, state.epilogue.AddedOf(args),
                     args.outputs[0].data<float>(), args.weights_fixed, args.scratch);
}

void Backward(const Layer& layer, const BackwardArgs& args) {
  static_cast<State*>(args.kernel_state)->conv.Backward(BlockedGradsOf(layer, args), args.scratch);
}

// At the rate that oneDNN reaches on full blocks.
double Seconds(const KernelQuery& query, bool plain_input) {
  constexpr double kProductsPerSecond = 100e9;  // a thread
  const ConvGeometry g = MakeConvGeometry(query.layer, query.context.inputs[0].shape);
  const double fill = IsDepthwise(g) ? 0.25
                                     : FillOf(g.out_channels / g.groups) *
                                           (plain_input ? 1 : FillOf(g.in_channels / g.groups));
  return static_cast<double>(query.info.macs) / (kProductsPerSecond * fill * query.threads);
}

Kernel MakeRow(std::string name, bool plain_input, Support (*supports)(const KernelQuery&)) {
  Kernel row;
  row.name = std::move(name);
  row.supports = supports;
  row.input_format = plain_input ? MemoryFormat::kPlain : MemoryFormat::kBlocked;
  row.output_format = MemoryFormat::kBlocked;
  row.forward = Forward;
  row.backward = Backward;
  row.forward_scratch = [=](const KernelQuery& query) {
    return BlockedConv(BlockedConfigOf(query, plain_input)).ForwardScratch();
  };
  row.backward_scratch = [=](const KernelQuery& query) {
    return BlockedConv(BlockedConfigOf(query, plain_input)).BackwardScratch();
  };
  row.state_bytes = [=](const KernelQuery& query) {
    return BlockedConv(BlockedConfigOf(query, plain_input)).KeptBytes();
  };
  row.make_state = [=](const KernelQuery& query) -> std::unique_ptr<KernelState> {
    auto state = std::make_unique<State>(query, plain_input);
    state->conv.Prepare();
    return state;
  };
  row.absorbs = ConvolutionAbsorbs;
  row.seconds = [=](const KernelQuery& query) { return Seconds(query, plain_input); };
  return row;
}

}  // namespace

std::vector<Kernel> OneDnnConvolutionKernels() {
  // The last ones are for sessions whose inputs shrink below what the filters reach over; no plan
  // wants them.
  std::vector<Kernel> rows = {WinogradConvolutionKernel(), MakeRow("onednn", false, SupportsFast),
                              MakeRow("onednn, plain input", true, SupportsFastPlainInput),
                              MakeRow("onednn, reference", false, SupportsBlockedConv),
                              MakeRow("onednn, reference, plain input", true, SupportsPlainInput)};
  for (size_t i = 3; i < rows.size(); ++i) {
    rows[i].seconds = [](const KernelQuery& query) {
      constexpr double kProductsPerSecond = 100e6;  // a thread
      return static_cast<double>(query.info.macs) / (kProductsPerSecond * query.threads);
    };
  }
  return rows;
}

}  // namespace crema
