// See conv_cudnn.h. Weights and their gradients have the type of the blobs
// (gpu_implementations.h).
#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "core/strings.h"
#include "crema.pb.h"
#include "layers/channels_last_implementation.h"
#include "layers/convolution/conv_cuda.h"
#include "layers/convolution/conv_cudnn.h"
#include "layers/convolution/conv_cudnn_fold.h"
#include "layers/convolution/conv_cudnn_state.h"
#include "layers/convolution/conv_epilogue.h"
#include "layers/convolution/convolution.h"
#include "layers/gpu_implementation.h"
#include "math/cuda/group_sums.cuh"
#include "plan/copy_cost.h"

namespace crema {
namespace {

// Returns at least two axes, which cuDNN requires.
std::vector<CudnnConvSpec::Axis> AxesOf(const ConvWindow& window) {
  std::vector<CudnnConvSpec::Axis> axes;
  for (int missing = window.axes; missing < 2; ++missing) axes.push_back({1, 1, 1, 1, 0, 1});
  for (size_t i = 0; i < static_cast<size_t>(window.axes); ++i) {
    axes.push_back({window.in[i], window.out[i], window.kernel[i], window.stride[i], window.pad[i],
                    window.dilation[i]});
  }
  return axes;
}

// Returns true if the input or the output has one position, and the other has several. The strides
// of one position are those of either order of channels. Beside a blob that is not channels last,
// cuDNN 9.19 then leaves outputs of 16 bits unwritten (H100, the sample one_position of
// Convolution).
bool HasOnePositionOnOneSide(const CudnnConvSpec& spec) {
  const auto is_one = [](int64_t CudnnConvSpec::Axis::*size) {
    return [size](const CudnnConvSpec::Axis& axis) { return axis.*size == 1; };
  };
  return std::ranges::all_of(spec.axes, is_one(&CudnnConvSpec::Axis::in)) !=
         std::ranges::all_of(spec.axes, is_one(&CudnnConvSpec::Axis::out));
}

Support SupportsShape(const OpDesc& query, const CudnnConvLayer& layer) {
  if (!IsCudaFloat(query.context.dtype)) return Support::No("is for f32, f16 and bf16");
  if (layer.spec.batch == 0) return Support::No("there is nothing to convolve");
  if (layer.spec.axes.size() > 3) return Support::No("cuDNN has three axes of space at most");
  if (!layer.possible) return Support::No("cuDNN cannot describe such a layer");
  if (query.context.dtype != DType::kF32 && !layer.spec.channels_last &&
      HasOnePositionOnOneSide(layer.spec)) {
    return Support::No("in 16 bits cuDNN takes a blob of one position for channels last");
  }
  return {};
}

struct Kind {
  bool transposed = false;
  bool fused = true;
  bool channels_last = false;
};

Support SupportsOrder(const OpDesc& query, const Kind& kind) {
  if (!kind.channels_last) return {};
  const Shape& input = query.context.inputs[0].shape;
  if (input.CanonicalAxis(query.layer.param().convolution_param().axis()) != 1) {
    return Support::No("is for channels on axis 1");
  }
  return SupportsChannelsLast(query);
}

// Returns the estimated time. Tensor cores compute in channels last: cuDNN transposes inputs of
// other layouts, and the result back. With one channel per group cuDNN does not use tensor cores.
double Seconds(const OpDesc& query, const Kind& kind) {
  const bool rounds = query.context.dtype != DType::kF32 || query.precision == TF32;
  const bool transposes = rounds && !kind.channels_last &&
                          FilterTranspose(CudnnConvLayer(query, kind.transposed).spec).channels > 1;
  return (transposes ? 3 : 1) * CopySeconds(query);
}

Support Supports(const OpDesc& query, const Kind& kind, CudnnSupportCache* answers) {
  if (const std::string reason = WhyNoCudnn(); !reason.empty()) {
    return Support::No(
        StrCat("is asked for on the GPU", kind.fused ? ", fusion too: " : ": ", reason));
  }
  if (const Support order = SupportsOrder(query, kind); !order.yes) return order;
  const CudnnConvLayer layer(query, kind.transposed, kind.channels_last);
  const Support support = SupportsShape(query, layer);
  if (!support.yes) return support;
  std::string reason = answers->WhyNot(layer.Forward(kind.fused), query.gpu);
  if (reason.empty() && query.backward) reason = answers->WhyNot(layer.ToWeights(), query.gpu);
  if (reason.empty() && query.to_input) reason = answers->WhyNot(layer.ToInput(), query.gpu);
  return reason.empty() ? Support{} : Support::No(reason);
}

bool CanFuse(const OpDesc& query, const Kind& kind, CudnnSupportCache* answers) {
  if (!WhyNoCudnn().empty()) return false;
  if ((query.backward || kind.transposed) && !CanFuseRelu(query)) return false;
  const CudnnConvLayer layer(query, kind.transposed, kind.channels_last);
  return layer.possible && answers->WhyNot(layer.Forward(kind.fused), query.gpu).empty();
}

}  // namespace

CudnnConvLayer::CudnnConvLayer(const OpDesc& query, bool is_transposed, bool channels_last)
    : transposed(is_transposed),
      own_bias(query.layer.param().convolution_param().bias_term()),
      bias(own_bias),
      fused_layers(query.fused.begin(), query.fused.end()),
      relu(ReluOf(query)) {
  if (!transposed) {
    const ConvEpilogue epilogue(static_cast<const Convolution&>(query.layer), query.fused);
    const ConvFold fold(own_bias, query.fused);
    possible = epilogue.possible() && fold.possible();
    bias = own_bias || fold.any();
    sum = epilogue.sum();
  }
  const Shape& input = query.context.inputs[0].shape;
  const ConvGeometry g =
      transposed ? MakeDeconvGeometry(query.layer, input) : MakeConvGeometry(query.layer, input);
  const DType dtype = query.context.dtype;
  spec.dtype = dtype;
  spec.channels_last = channels_last;
  spec.tf32 = dtype == DType::kF32 && query.precision == TF32;
  spec.batch = g.batch;
  spec.groups = g.groups;
  spec.in_channels = g.in_channels;
  spec.out_channels = g.out_channels;
  spec.axes = AxesOf(g.window);
}

CudnnConvSpec CudnnConvLayer::Forward(bool fused) const {
  CudnnConvSpec pass = spec;
  pass.pass = transposed ? ConvPass::kToInput : ConvPass::kForward;
  if (!fused) return pass;
  pass.sum = sum;
  pass.bias = bias;
  if (relu.on) pass.relu = relu.slope;
  return pass;
}

CudnnConvSpec CudnnConvLayer::ToInput() const {
  CudnnConvSpec pass = spec;
  pass.pass = transposed ? ConvPass::kForward : ConvPass::kToInput;
  return pass;
}

CudnnConvSpec CudnnConvLayer::ToWeights() const {
  CudnnConvSpec pass = spec;
  pass.pass = ConvPass::kToWeights;
  return pass;
}

GroupLayout CudnnConvLayer::OutputGroups() const {
  return {1, OutputCount() / OutputChannels(), OutputChannels(), 1};
}

int64_t CudnnConvLayer::BiasSums() const {
  return spec.channels_last && own_bias ? GroupSumsScratch(OutputGroups()) : 0;
}

size_t CudnnConvLayer::ForwardScratch() const {
  return ScratchBytes<std::byte>(CudnnWorkspaceBound(spec) + kCudnnWorkspaceLine) +
         ScratchBytes<std::byte>(TransposesFilters() ? FilterTranspose(spec).Bytes() : 0);
}

size_t CudnnConvLayer::BackwardScratch() const {
  const auto bytes = static_cast<int64_t>(SizeOf(spec.dtype));
  return ForwardScratch() + ScratchBytes<std::byte>(spec.FilterCount() * bytes) +
         ScratchBytes<std::byte>(relu.on ? OutputCount() * bytes : 0) +
         ScratchBytes<double>(BiasSums());
}

namespace {

std::string NameOf(const Kind& kind) {
  return StrCat("cudnn", kind.channels_last ? " NHWC" : "", kind.fused ? "" : ", unfused");
}

// Returns the most bytes of the state: folded weights, and transposed weights if they are fixed.
size_t StateBytes(const OpDesc& query, const CudnnConvLayer& layer) {
  const CudnnConvSpec& spec = layer.spec;
  const bool folds = ConvFold(layer.own_bias, layer.fused_layers).any();
  const size_t folded =
      folds ? ConvFold::Bytes(spec.FilterCount(), spec.out_channels, spec.dtype) : 0;
  const bool keeps = layer.TransposesFilters() && !query.backward;
  return folded + (keeps ? static_cast<size_t>(FilterTranspose(spec).Bytes()) : 0);
}

class CudnnConvolution final : public Implementation {
 public:
  CudnnConvolution(const Kind& kind, std::shared_ptr<CudnnSupportCache> answers)
      : Implementation(FactsOf(kind)), kind_(kind), answers_(std::move(answers)) {}

  bool CanFuse(const OpDesc& op) const override {
    return crema::CanFuse(op, kind_, answers_.get());
  }
  std::optional<double> Seconds(const OpDesc& op) const override {
    return crema::Seconds(op, kind_);
  }
  LayerInfo Info(const OpDesc& op) const override { return InfoWithRelu(op); }
  Needs NeedsOf(const OpDesc& op) const override {
    const CudnnConvLayer layer = LayerOf(op);
    return {.forward_scratch = layer.ForwardScratch() + kScratchSlack,
            .backward_scratch = op.backward ? layer.BackwardScratch() + kScratchSlack : 0,
            .state_bytes = StateBytes(op, layer)};
  }
  std::unique_ptr<ImplementationState> MakeState(const OpDesc& op) const override {
    return std::make_unique<CudnnConvState>(LayerOf(op), kind_.fused);
  }
  void Forward(const Layer&, const ForwardArgs& args) const override {
    static_cast<CudnnConvState*>(args.implementation_state)->Forward(args);
  }
  void Backward(const Layer&, const BackwardArgs& args) const override {
    static_cast<CudnnConvState*>(args.implementation_state)->Backward(args);
  }

 private:
  static ImplementationFacts FactsOf(const Kind& kind) {
    const MemoryFormat format{kind.channels_last ? Layout::kNHWC : Layout::kNCHW};
    return {.name = NameOf(kind),
            .device = DeviceType::kCuda,
            .input_format = format,
            .output_format = format};
  }
  Support SupportsLayer(const OpDesc& op) const override {
    return crema::Supports(op, kind_, answers_.get());
  }
  CudnnConvLayer LayerOf(const OpDesc& op) const {
    return {op, kind_.transposed, kind_.channels_last};
  }

  const Kind kind_;
  const std::shared_ptr<CudnnSupportCache> answers_;
};

// Adds implementations at the front of the list of `type`, in this order: "cudnn", which fuses the
// layers after it; "cudnn, unfused", in which our kernel adds bias, sum and ReLU in one pass; then
// both in channels last, "cudnn NHWC" and "cudnn NHWC, unfused".
void AddImplementations(const char* type, bool transposed, Registry* registry) {
  const auto answers = std::make_shared<CudnnSupportCache>();
  for (const bool channels_last : {true, false}) {  // each is inserted at the front
    for (const bool fused : {false, true}) {
      registry->AddImplementation(type, std::make_shared<CudnnConvolution>(
                                            Kind{transposed, fused, channels_last}, answers));
    }
  }
}

}  // namespace

void RegisterConvolutionCudnn(Registry& registry) {
  for (const char* type : kConvolutionTypes) AddImplementations(type, false, &registry);
  AddImplementations("Deconvolution", true, &registry);
}

}  // namespace crema
