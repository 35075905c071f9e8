// Scale: y = x * s + b, where s and b cover some axes of x and are repeated along the others. s is
// learned, or the second bottom; b is learned and exists only with bias_term.
// dx = dy * s; ds = sum of dy * x and db = sum of dy along the axes that they do not cover.
// Backward reads x for ds, so the layer has an output blob of its own even if top and bottom have
// one name.
#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/arithmetic/broadcast_axes.h"
#include "layers/blocked_implementation.h"
#include "layers/channel_affine.h"
#include "layers/int8_ranges.h"
#include "layers/normalization/group_normalize.h"
#include "math/blocked_batch_norm.h"
#include "math/blocked_scale.h"
#include "math/broadcast.h"
#include "math/scratch.h"

namespace crema {
namespace {

class Scale final : public Layer, public ChannelAffine {
 public:
  using Layer::Layer;

  LayerInfo Infer(const InferContext& context) const override {
    const Shape& x = context.inputs[0].shape;
    const bool learns = context.inputs.size() == 1;
    const Shape small = learns ? CoveredShape(*this, x, Covered()) : context.inputs[1].shape;
    CoveredSize(*this, x, small, Covered());
    LayerInfo info;
    info.outputs = {context.inputs[0]};
    if (learns) info.parameters.push_back({"scale", small, Filler()});
    if (HasBias()) info.parameters.push_back({"bias", small, param().scale_param().bias_filler()});
    SetReach(x, Covered(), learns ? nullptr : &small, &info);
    info.backward_reads_input.assign(context.inputs.size(), true);
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    const bool learns = args.inputs.size() == 1;
    const ConstTensorView& scale = learns ? args.parameters[0] : args.inputs[1];
    const BroadcastShape sizes =
        CoveredSize(*this, args.inputs[0].shape(), scale.shape(), Covered());
    const int threads = args.context.threads();
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const T* x = args.inputs[0].data<T>();
      T* y = args.outputs[0].data<T>();
      if (HasBias()) {
        const auto apply = [](T v, T, T s, T b) { return v * s + b; };
        Broadcast(threads, sizes, apply, x, x, y, scale.data<T>(),
                  args.parameters.back().data<T>());
      } else {
        const auto apply = [](T v, T, T s) { return v * s; };
        Broadcast(threads, sizes, apply, x, x, y, scale.data<T>());
      }
    });
  }

  bool IsChannelAffine(Phase) const override {
    const ScaleParameter& p = param().scale_param();
    return param().bottom_size() == 1 && p.axis() == 1 && p.num_axes() == 1;
  }
  size_t AffineBlobs() const override { return HasBias() ? 2 : 1; }
  void ReadChannelAffine(std::span<const ConstTensorView> parameters, std::span<double> factor,
                         std::span<double> shift) const override {
    const float* scale = parameters[0].data<float>();
    const float* bias = HasBias() ? parameters[1].data<float>() : nullptr;
    for (size_t c = 0; c < factor.size(); ++c) {
      factor[c] = static_cast<double>(scale[c]);
      shift[c] = bias == nullptr ? 0 : static_cast<double>(bias[c]);
    }
  }

  // Returns the blocked blob x for the second bottom `factors`: one a channel of each image, or one
  // a channel of all. Returns nothing for other factors.
  std::optional<ScaledBlocks> BlocksFor(const Shape& x, const Shape& factors) const {
    const bool per_image = factors == Shape{x[0], x[1]};
    if (HasBias() || (!per_image && factors != Shape{x[1]})) return std::nullopt;
    if (CoveredSize(*this, x, factors, Covered()).inner != x.count(2)) return std::nullopt;
    return ScaledBlocks{x[0], x[1], x.count(2), per_image};
  }

  void Backward(const BackwardArgs& args) const override {
    const bool learns = args.inputs.size() == 1;
    const ConstTensorView& scale = learns ? args.parameters[0] : args.inputs[1];
    const TensorView& dscale = learns ? args.parameter_grads[0] : args.input_grads[1];
    const BroadcastShape sizes =
        CoveredSize(*this, args.inputs[0].shape(), scale.shape(), Covered());
    const int threads = args.context.threads();
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const T* x = args.inputs[0].data<T>();
      const T* dy = args.output_grads[0].data<T>();
      if (!dscale.empty()) {
        if (!learns) std::memset(dscale.raw(), 0, dscale.bytes());
        const auto product = [](T d, T v) { return d * v; };
        AddBroadcastSums(threads, sizes, product, dy, x, dscale.data<T>());
      }
      if (HasBias() && !args.parameter_grads.back().empty()) {
        const auto first = [](T d, T) { return d; };
        AddBroadcastSums(threads, sizes, first, dy, dy, args.parameter_grads.back().data<T>());
      }
      if (!args.input_grads[0].empty()) {
        const auto apply = [](T d, T, T s) { return d * s; };
        Broadcast(threads, sizes, apply, dy, dy, args.input_grads[0].data<T>(), scale.data<T>());
      }
    });
  }

 private:
  bool HasBias() const { return param().scale_param().bias_term(); }

  CoveredAxes Covered() const { return AxesOfScale(*this); }

  // Returns the filler, by default 1: the layer begins as the identity.
  FillerParameter Filler() const {
    if (param().scale_param().has_filler()) return param().scale_param().filler();
    FillerParameter one;
    one.set_value(1);
    return one;
  }
};

// Implementation "blocked": one or two parameters per channel, on blocked blobs of whole blocks.
Support SupportsBlocks(const OpDesc& query) {
  if (!static_cast<const Scale&>(query.layer).IsChannelAffine(TEST)) {
    return Support::No("is for one parameter a channel, on axis 1");
  }
  return SupportsWholeBlocks(query);
}

size_t BlockedScratch(const OpDesc& query) {
  return ScratchBytes<double>(2 * query.context.inputs[0].shape[1]) + kScratchSlack;
}

void ForwardBlocked(const Layer& layer, const ForwardArgs& args) {
  const Shape& shape = args.inputs[0].shape();
  const auto channels = static_cast<size_t>(shape[1]);
  double* factor = ScratchCutter(args.scratch).Take<double>(2 * shape[1]);
  double* shift = factor + channels;
  static_cast<const Scale&>(layer).ReadChannelAffine(args.parameters, {factor, channels},
                                                     {shift, channels});
  GroupNormalize(args.context.threads(), BlockedChannelLayout(shape), args.inputs[0].data<float>(),
                 nullptr, factor, shift, args.outputs[0].data<float>());
}

void AddSums(const double* sums, const TensorView& to) {
  float* gradient = to.data<float>();
  for (int64_t c = 0; c < to.count(); ++c) gradient[c] += static_cast<float>(sums[c]);
}

void BackwardBlocked(const Layer&, const BackwardArgs& args) {
  const Shape& shape = args.output_grads[0].shape();
  const GroupLayout channels = BlockedChannelLayout(shape);
  const int threads = args.context.threads();
  double* sums = ScratchCutter(args.scratch).Take<double>(shape[1]);
  const float* dy = args.output_grads[0].data<float>();
  if (!args.parameter_grads[0].empty()) {
    GroupDots(threads, channels, dy, args.inputs[0].data<float>(), sums);
    AddSums(sums, args.parameter_grads[0]);
  }
  if (args.parameter_grads.size() > 1 && !args.parameter_grads[1].empty()) {
    GroupSums(threads, channels, dy, sums);
    AddSums(sums, args.parameter_grads[1]);
  }
  if (args.input_grads[0].empty()) return;
  const float* scale = args.parameters[0].data<float>();
  std::copy_n(scale, shape[1], sums);
  GroupNormalize(threads, channels, dy, nullptr, sums, nullptr, args.input_grads[0].data<float>());
}

ImplementationPtr BlockedImplementation() {
  return MakeBlockedImplementation({.supports = SupportsBlocks,
                                    .forward = ForwardBlocked,
                                    .backward = BackwardBlocked,
                                    .forward_scratch = BlockedScratch,
                                    .backward_scratch = BlockedScratch});
}

ChannelBlocks BlocksOf(const Shape& shape) { return {shape[0], shape[1], shape.count(2)}; }

size_t BF16Scratch(const OpDesc& query) {
  const ChannelBlocks blocks = BlocksOf(query.context.inputs[0].shape);
  return ScratchBytes<double>(ChannelSumsScratch(blocks)) +
         ScratchBytes<double>(2 * blocks.channels) + ScratchBytes<float>(blocks.channels) +
         kScratchSlack;
}

void ForwardBF16(const Layer&, const ForwardArgs& args) {
  const ChannelBlocks blocks = BlocksOf(args.inputs[0].shape());
  float* zeros = ScratchCutter(args.scratch).Take<float>(blocks.channels);
  std::fill_n(zeros, blocks.channels, 0.0F);
  const float* shift = args.parameters.size() > 1 ? args.parameters[1].data<float>() : zeros;
  NormalizeChannels(args.context.threads(), blocks, args.inputs[0].data<BFloat16>(), zeros,
                    args.parameters[0].data<float>(), shift, {}, args.outputs[0].data<BFloat16>());
}

void BackwardBF16(const Layer&, const BackwardArgs& args) {
  const ChannelBlocks blocks = BlocksOf(args.output_grads[0].shape());
  const int threads = args.context.threads();
  ScratchCutter cutter(args.scratch);
  float* zeros = cutter.Take<float>(blocks.channels);
  std::fill_n(zeros, blocks.channels, 0.0F);
  const NormalizedGradsOf<BFloat16> grads{.x = args.inputs[0].data<BFloat16>(),
                                          .dy = args.output_grads[0].data<BFloat16>(),
                                          .center = zeros};
  const bool shifts = args.parameter_grads.size() > 1 && !args.parameter_grads[1].empty();
  if (!args.parameter_grads[0].empty() || shifts) {
    double* sums = cutter.Take<double>(2 * blocks.channels);
    double* products = sums + blocks.channels;
    NormalizedSums(threads, blocks, grads, sums, products,
                   cutter.Take<double>(ChannelSumsScratch(blocks)));
    if (!args.parameter_grads[0].empty()) AddSums(products, args.parameter_grads[0]);
    if (shifts) AddSums(sums, args.parameter_grads[1]);
  }
  if (args.input_grads[0].empty()) return;
  NormalizeChannels(threads, blocks, grads.dy, zeros, args.parameters[0].data<float>(), zeros, {},
                    args.input_grads[0].data<BFloat16>());
}

ImplementationPtr BlockedBF16Implementation() {
  return StoringBFloat16(MakeBlockedImplementation({.supports = SupportsBlocks,
                                                    .forward = ForwardBF16,
                                                    .backward = BackwardBF16,
                                                    .forward_scratch = BF16Scratch,
                                                    .backward_scratch = BF16Scratch}));
}

// Implementation "blocked, plain factors": x and y are blocked, and the second bottom is plain.
Support SupportsFactors(const OpDesc& query) {
  if (const Support support = SupportsBlocked(query); !support.yes) return support;
  if (query.context.inputs.size() != 2) return Support::No("is for two bottoms");
  const Scale& scale = static_cast<const Scale&>(query.layer);
  if (scale.BlocksFor(query.context.inputs[0].shape, query.context.inputs[1].shape)) return {};
  return Support::No("is for factors of shape N x C or C, without a bias");
}

template <typename T>
void ForwardByFactors(const Layer& layer, const ForwardArgs& args) {
  const auto blocks =
      static_cast<const Scale&>(layer).BlocksFor(args.inputs[0].shape(), args.inputs[1].shape());
  ScaleBlockedChannels(args.context.threads(), *blocks, args.inputs[0].data<T>(),
                       args.inputs[1].data<float>(), args.outputs[0].data<T>());
}

template <typename T>
void BackwardByFactors(const Layer& layer, const BackwardArgs& args) {
  const auto blocks =
      static_cast<const Scale&>(layer).BlocksFor(args.inputs[0].shape(), args.inputs[1].shape());
  const int threads = args.context.threads();
  const T* dy = args.output_grads[0].data<T>();
  if (!args.input_grads[1].empty()) {
    BlockedChannelDots(threads, *blocks, args.inputs[0].data<T>(), dy,
                       args.input_grads[1].data<float>());
  }
  if (args.input_grads[0].empty()) return;
  ScaleBlockedChannels(threads, *blocks, dy, args.inputs[1].data<float>(),
                       args.input_grads[0].data<T>());
}

template <typename T>
ImplementationPtr FactorsImplementation() {
  ImplementationFacts facts = BlockedFacts("blocked, plain factors");
  facts.plain_later_inputs = true;
  return MakeSimpleImplementation(std::move(facts), {.supports = SupportsFactors,
                                                     .forward = ForwardByFactors<T>,
                                                     .backward = BackwardByFactors<T>});
}

std::vector<LayerSample> Samples() {
  const SampleInput image{.shape = {2, 3, 4, 5}}, wide{.shape = {2, 35, 9, 8}};
  const auto with = [](const std::string& fields) {
    return "scale_param { " + fields + " filler { type: \"gaussian\" } }";
  };
  const std::string bias = "bias_term: true bias_filler { type: \"gaussian\" }";
  return {
      {.name = "after_batch_norm", .prototxt = with(bias), .inputs = {image}},
      {.name = "channel", .prototxt = with(""), .inputs = {image}},
      {.name = "identity", .prototxt = "", .inputs = {image}},
      {.name = "two_axes", .prototxt = with("axis: 1 num_axes: 2 " + bias), .inputs = {image}},
      {.name = "to_the_end", .prototxt = with("axis: -2 num_axes: -1"), .inputs = {image}},
      {.name = "everything", .prototxt = with("axis: 0 num_axes: -1 " + bias), .inputs = {image}},
      {.name = "scalar", .prototxt = with("num_axes: 0 " + bias), .inputs = {image}},
      {.name = "large", .prototxt = with(bias), .inputs = {{.shape = {3, 2, 20011}}}},
      {.name = "large_rows", .prototxt = with(bias), .inputs = {{.shape = {40, 1201}}}},
      {.name = "two_bottoms", .prototxt = "", .inputs = {image, {.shape = {3, 4}}}},
      {.name = "two_bottoms_bias",
       .prototxt = "scale_param { axis: 0 " + bias + " }",
       .inputs = {image, {.shape = {2, 3}}}},
      {.name = "two_bottoms_scalar",
       .prototxt = "scale_param { " + bias + " }",
       .inputs = {image, {.shape = {}}}},
      {.name = "two_bottoms_all",
       .prototxt = "scale_param { axis: 0 }",
       .inputs = {{.shape = {4, 3}}, {.shape = {4, 3}}}},
      {.name = "whole_blocks", .prototxt = with(bias), .inputs = {{.shape = {2, 32, 3, 3}}}},
      {.name = "gate", .prototxt = "scale_param { axis: 0 }", .inputs = {wide, {.shape = {2, 35}}}},
      {.name = "gate_of_all_images", .prototxt = "", .inputs = {wide, {.shape = {35}}}},
      {.name = "gate_of_whole_blocks",
       .prototxt = "scale_param { axis: 0 }",
       .inputs = {{.shape = {1, 32, 9, 8}}, {.shape = {1, 32}}}},
      {.name = "empty_batch", .prototxt = with(bias), .inputs = {{.shape = {0, 3}}}},
      {.name = "empty_batch_two_bottoms",
       .prototxt = "",
       .inputs = {{.shape = {0, 3}}, {.shape = {3}}}},
  };
}

}  // namespace

void RegisterScale(Registry& registry) {
  LayerType type;
  type.name = "Scale";
  type.traits = {.fits_16_bits = true, .computes_on_bytes = true};
  type.category = "arithmetic";
  type.summary =
      "Multiplies some axes of a blob by another, learned or the second bottom, and adds a bias.";
  type.formula = "y[o, m, i] = x[o, m, i] * s[m] + b[m]; m: the axes that s covers";
  type.input_docs = {"x: any shape that has the covered axes",
                     "s (optional): the shape of x from axis on, or a scalar"};
  type.output_docs = {"y: the shape of x"};
  type.parameter_docs = {"scale: the covered axes of x; with one bottom only",
                         "bias: the shape of the scale; with bias_term only"};
  type.differences = {
      "In place, Caffe keeps a copy of its input; here the top has separate memory."};
  type.param_fields = {"scale_param"};
  type.inputs = {1, 2};
  type.make = [](const LayerParameter& p) { return std::make_unique<const Scale>(p); };
  type.implementations = {BlockedImplementation(), BlockedBF16Implementation(),
                          FactorsImplementation<float>(),
                          StoringBFloat16(FactorsImplementation<BFloat16>()), Int8ByFloats()};
  type.samples = Samples();
  type.bad_samples = BadCoveredAxes("scale_param");
  registry.Add(std::move(type));
}

}  // namespace crema
