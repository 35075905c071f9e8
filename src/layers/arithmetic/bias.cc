// Bias: y = x + b, where b covers some axes of x and is repeated along the others. b is learned, or
// the second bottom. dx = dy, db = sum of dy along the axes that b does not cover. Backward reads
// neither x nor y, so the layer may run in place.
#include <algorithm>
#include <cstring>
#include <memory>

#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/arithmetic/broadcast_axes.h"
#include "layers/blocked_implementation.h"
#include "layers/channel_affine.h"
#include "layers/part_blocks.h"
#include "math/blocked_bias.h"
#include "math/broadcast.h"

namespace crema {
namespace {

class Bias final : public Layer, public ChannelAffine {
 public:
  using Layer::Layer;

  LayerInfo Infer(const InferContext& context) const override {
    const Shape& x = context.inputs[0].shape;
    LayerInfo info;
    info.outputs = {context.inputs[0]};
    info.in_place = true;
    if (context.inputs.size() == 1) {
      info.parameters = {
          {"bias", CoveredShape(*this, x, Covered()), param().bias_param().filler()}};
    } else {
      CoveredSize(*this, x, context.inputs[1].shape, Covered());
    }
    SetReach(x, Covered(), context.inputs.size() > 1 ? &context.inputs[1].shape : nullptr, &info);
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    const ConstTensorView& bias = args.inputs.size() > 1 ? args.inputs[1] : args.parameters[0];
    const BroadcastShape sizes =
        CoveredSize(*this, args.inputs[0].shape(), bias.shape(), Covered());
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const T* x = args.inputs[0].data<T>();
      const auto add = [](T v, T, T b) { return v + b; };
      Broadcast(args.context.threads(), sizes, add, x, x, args.outputs[0].data<T>(),
                bias.data<T>());
    });
  }

  bool IsChannelAffine(Phase) const override {
    const BiasParameter& p = param().bias_param();
    return param().bottom_size() == 1 && p.axis() == 1 && p.num_axes() == 1;
  }
  size_t AffineBlobs() const override { return 1; }
  void ReadChannelAffine(std::span<const ConstTensorView> parameters, std::span<double> factor,
                         std::span<double> shift) const override {
    std::ranges::fill(factor, 1);
    std::copy_n(parameters[0].data<float>(), shift.size(), shift.begin());
  }

  void Backward(const BackwardArgs& args) const override {
    const bool learns = args.inputs.size() == 1;
    const TensorView& bias = learns ? args.parameter_grads[0] : args.input_grads[1];
    DispatchFloat(args.output_grads[0].dtype(), [&]<typename T>(T) {
      const T* dy = args.output_grads[0].data<T>();
      if (!bias.empty()) {
        const BroadcastShape sizes =
            CoveredSize(*this, args.output_grads[0].shape(), bias.shape(), Covered());
        if (!learns) std::memset(bias.raw(), 0, bias.bytes());
        const auto first = [](T d, T) { return d; };
        AddBroadcastSums(args.context.threads(), sizes, first, dy, dy, bias.data<T>());
      }
      // Last, since dx may share memory with dy.
      if (!args.input_grads[0].empty() && args.input_grads[0].raw() != dy) {
        std::memcpy(args.input_grads[0].raw(), dy, args.output_grads[0].bytes());
      }
    });
  }

 private:
  CoveredAxes Covered() const { return AxesOfBias(*this); }
};

// Implementation "blocked": one parameter a channel.
Support SupportsBlocks(const OpDesc& query) {
  if (const Support support = SupportsBlocked(query); !support.yes) return support;
  if (static_cast<const Bias&>(query.layer).IsChannelAffine(TEST)) return {};
  return Support::No("is for one parameter a channel, on axis 1");
}

void ForwardBlocked(const Layer&, const ForwardArgs& args) {
  const Shape& shape = args.outputs[0].shape();
  const void* x = args.inputs[0].raw();
  float* y = args.outputs[0].data<float>();
  if (x != y) std::memcpy(y, x, WholeBlocks(args.outputs[0]).bytes());
  AddBlockedBiasRelu(args.context.threads(), shape[0], shape[1], shape.count(2),
                     args.parameters[0].data<float>(), {}, y);
}

void BackwardBlocked(const Layer&, const BackwardArgs& args) {
  const ConstTensorView dy = WholeBlocks(args.output_grads[0]);
  const Shape& shape = args.output_grads[0].shape();
  if (!args.parameter_grads[0].empty()) {
    AddBlockedChannelSums(args.context.threads(), shape[0], shape[1], shape.count(2),
                          dy.data<float>(), args.parameter_grads[0].data<float>());
  }
  const TensorView& dx = args.input_grads[0];
  if (!dx.empty() && dx.raw() != dy.raw()) std::memcpy(dx.raw(), dy.raw(), dy.bytes());
}

std::vector<LayerSample> Samples() {
  const SampleInput image{.shape = {2, 3, 4, 5}};
  const auto with = [](const std::string& fields) {
    return "bias_param { " + fields + " filler { type: \"gaussian\" } }";
  };
  return {
      {.name = "channel", .prototxt = with(""), .inputs = {image}},
      {.name = "two_axes", .prototxt = with("axis: 1 num_axes: 2"), .inputs = {image}},
      {.name = "to_the_end", .prototxt = with("axis: -2 num_axes: -1"), .inputs = {image}},
      {.name = "everything", .prototxt = with("axis: 0 num_axes: -1"), .inputs = {image}},
      {.name = "scalar", .prototxt = with("num_axes: 0"), .inputs = {image}},
      {.name = "large", .prototxt = with(""), .inputs = {{.shape = {3, 2, 20011}}}},
      {.name = "large_rows", .prototxt = with(""), .inputs = {{.shape = {40, 1201}}}},
      {.name = "two_bottoms", .prototxt = "", .inputs = {image, {.shape = {3, 4}}}},
      {.name = "two_bottoms_rows",
       .prototxt = "bias_param { axis: 0 }",
       .inputs = {image, {.shape = {2}}}},
      {.name = "two_bottoms_scalar", .prototxt = "", .inputs = {image, {.shape = {}}}},
      {.name = "whole_blocks", .prototxt = with(""), .inputs = {{.shape = {2, 32, 3, 3}}}},
      {.name = "part_blocks", .prototxt = with(""), .inputs = {{.shape = {2, 35, 9, 8}}}},
      {.name = "empty_batch", .prototxt = "", .inputs = {{.shape = {0, 3}}}},
      {.name = "empty_batch_two_bottoms",
       .prototxt = "",
       .inputs = {{.shape = {0, 3}}, {.shape = {3}}}},
  };
}

}  // namespace

void RegisterBias(Registry& registry) {
  LayerType type;
  type.name = "Bias";
  type.traits = {.fits_16_bits = true};
  type.category = "arithmetic";
  type.summary = "Adds a blob to some axes of another: learned, or the second bottom.";
  type.formula = "y[o, m, i] = x[o, m, i] + b[m]; m: the axes that b covers";
  type.input_docs = {"x: any shape that has the covered axes",
                     "b (optional): the shape of x from axis on, or a scalar"};
  type.output_docs = {"y: the shape of x"};
  type.parameter_docs = {"bias: the covered axes of x; with one bottom only"};
  type.param_fields = {"bias_param"};
  type.inputs = {1, 2};
  type.make = [](const LayerParameter& p) { return std::make_unique<const Bias>(p); };
  type.implementations = {MakeBlockedImplementation(
      {.supports = SupportsBlocks, .forward = ForwardBlocked, .backward = BackwardBlocked})};
  type.samples = Samples();
  type.bad_samples = BadCoveredAxes("bias_param");
  registry.Add(std::move(type));
}

}  // namespace crema
