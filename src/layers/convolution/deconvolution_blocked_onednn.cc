// Deconvolution on blocked blobs by oneDNN: implementation "onednn".
#include <algorithm>
#include <memory>

#include "crema.pb.h"
#include "layers/blocked_implementation.h"
#include "layers/convolution/convolution_blocked.h"
#include "layers/convolution/deconvolution_implementations.h"
#include "math/blocked_deconv.h"

namespace crema {
namespace {

const ConvolutionParameter& ParamOf(const Layer& layer) {
  return layer.param().convolution_param();
}

BlockedDeconvConfig ConfigOf(const OpDesc& query) {
  const ConvolutionParameter& p = ParamOf(query.layer);
  const ConvGeometry g = MakeDeconvGeometry(query.layer, query.context.inputs[0].shape);
  return {.shape = BlockedShapeOf(g),
          .bias = p.bias_term(),
          .relu = ReluOf(query),
          .backward = query.backward,
          .threads = query.threads};
}

Support Supports(const OpDesc& query) {
  const Support support = SupportsBlockedGeometry(query, MakeDeconvGeometry);
  if (!support.yes) return support;
  const ConvGeometry g = MakeDeconvGeometry(query.layer, query.context.inputs[0].shape);
  if (g.groups == 1 ||
      (g.in_channels % ChannelBlock() == 0 && g.out_channels % ChannelBlock() == 0))
    return {};
  return Support::No("is for groups that fill whole blocks of channels");
}

Support SupportsFast(const OpDesc& query) {
  const Support support = Supports(query);
  if (!support.yes) return support;
  try {
    if (!BlockedDeconv(ConfigOf(query)).IsReference()) return {};
  } catch (const Error& error) {
    return Support::No(error.what());
  }
  return Support::No("oneDNN has its slow reference only for these windows");
}

struct State final : ImplementationState {
  explicit State(const OpDesc& query) : deconv(ConfigOf(query)) {}
  BlockedDeconv deconv;
};

void Forward(const Layer& layer, const ForwardArgs& args) {
  const float* bias = ParamOf(layer).bias_term() ? args.parameters[1].data<float>() : nullptr;
  static_cast<State*>(args.implementation_state)
      ->deconv.Forward(args.inputs[0].data<float>(), args.parameters[0].data<float>(), bias,
                       args.outputs[0].data<float>(), args.weights_fixed, args.scratch);
}

void Backward(const Layer& layer, const BackwardArgs& args) {
  const auto data_or_null = [](const TensorView& view) {
    return view.empty() ? nullptr : view.data<float>();
  };
  const ConvolutionParameter& p = ParamOf(layer);
  static_cast<State*>(args.implementation_state)
      ->deconv.Backward(
          {.x = args.inputs[0].data<float>(),
           .y = ReluOf(layer, args.fused).on ? args.outputs[0].data<float>() : nullptr,
           .dy = args.output_grads[0].data<float>(),
           .weight = args.parameters[0].data<float>(),
           .dx = data_or_null(args.input_grads[0]),
           .dweight = data_or_null(args.parameter_grads[0]),
           .dbias = p.bias_term() ? data_or_null(args.parameter_grads[1]) : nullptr},
          args.scratch);
}

double CopySeconds(const OpDesc& query) {
  constexpr double kBytesPerSecond = 10e9;
  const int64_t elements =
      query.context.inputs[0].shape.count() + query.info.outputs[0].shape.count();
  return static_cast<double>(elements) * sizeof(float) / kBytesPerSecond;
}

// The estimate of the native implementation counts only the memory that it moves. This estimate is
// the same plus the difference in time of the products, which may be negative. Channels that pad
// blocks count as products.
double Seconds(const OpDesc& query) {
  constexpr double kProductsPerSecond = 117e9, kOfNative = 83e9;  // per thread
  const BlockedConvShape shape = ConfigOf(query).shape;
  const auto filled = [](int64_t channels) {
    const int64_t block = ChannelBlock();
    const int64_t blocks = (channels + block - 1) / block;
    return static_cast<double>(blocks * block);
  };
  const double padded = filled(shape.in_channels) * filled(shape.out_channels) /
                        static_cast<double>(shape.in_channels * shape.out_channels);
  const double products = static_cast<double>(query.info.macs) / query.threads;
  return std::max(0.0,
                  CopySeconds(query) + products * (padded / kProductsPerSecond - 1 / kOfNative));
}

double ReferenceSeconds(const OpDesc& query) {
  constexpr double kProductsPerSecond = 100e6;  // per thread
  return static_cast<double>(query.info.macs) / (kProductsPerSecond * query.threads);
}

ImplementationPtr MakeImplementation(const char* name, Support (*supports)(const OpDesc&),
                                     double (*seconds)(const OpDesc&)) {
  const auto forward_scratch = [](const OpDesc& query) {
    return BlockedDeconv(ConfigOf(query)).ForwardScratch();
  };
  const auto backward_scratch = [](const OpDesc& query) {
    return BlockedDeconv(ConfigOf(query)).BackwardScratch();
  };
  const auto state_bytes = [](const OpDesc& query) {
    return BlockedDeconv(ConfigOf(query)).PackedBytes();
  };
  return MakeSimpleImplementation<StatefulImplementation<State>>(
      BlockedFacts(name), {.supports = supports,
                           .can_fuse = CanFuseRelu,
                           .forward = Forward,
                           .backward = Backward,
                           .forward_scratch = forward_scratch,
                           .backward_scratch = backward_scratch,
                           .state_bytes = state_bytes,
                           .info = InfoWithRelu,
                           .seconds = seconds});
}

}  // namespace

// The last one serves sessions whose inputs shrink below the reach of the filters; no plan prefers
// it.
std::vector<ImplementationPtr> OneDnnDeconvolutionImplementations() {
  return {MakeImplementation("onednn", SupportsFast, Seconds),
          MakeImplementation("onednn, reference", Supports, ReferenceSeconds)};
}

}  // namespace crema
