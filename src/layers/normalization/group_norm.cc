// GroupNorm: y = (x - mean) / sqrt(variance + eps) * scale + bias, with mean and variance over a
// group of channels of one sample, and one scale and bias per channel (Wu and He 2018).
// InstanceNorm: the same with one channel per group (Ulyanov, Vedaldi and Lempitsky 2016).
#include <memory>

#include "core/strings.h"
#include "crema.pb.h"
#include "layers/normalization/group_norm_base.h"

namespace crema {
namespace {

template <typename Parameter>
GroupNormRule RuleOf(const Parameter& p) {
  return {.measure = NormMeasure::kVariance,
          .eps = p.eps(),
          .scale = p.affine(),
          .shift = p.affine(),
          .scale_filler = FillerOr(p.has_weight_filler(), p.weight_filler(), 1),
          .shift_filler = FillerOr(p.has_bias_filler(), p.bias_filler(), 0)};
}

void RequireChannels(const Layer& layer, const Shape& input) {
  if (input.axes() >= 2) return;
  FailInputs(layer, StrCat(layer.param().type(), " needs a batch axis and a channel axis, but the ",
                           "input is ", ToString(input)));
}

class GroupNorm final : public GroupNormBase {
 public:
  explicit GroupNorm(const LayerParameter& param)
      : GroupNormBase(param, RuleOf(param.group_norm_param())) {
    ValidateEps(*this, param.group_norm_param().eps(), "group_norm_param.eps");
    if (param.group_norm_param().group() == 0) {
      FailField(*this, "group_norm_param.group", "group must be above 0");
    }
  }

 private:
  NormLayout Arrange(const Shape& input) const override {
    RequireChannels(*this, input);
    const int64_t groups = param().group_norm_param().group();
    if (input[1] % groups != 0) {
      FailField(*this, "group_norm_param.group",
                StrCat("the ", input[1], " channels of the input of shape ", ToString(input),
                       " cannot be cut into ", groups, " groups of one size"));
    }
    return {{input[0] * groups, 1, 1, input[1] / groups * input.count(2)}, ChannelLayout(input, 1)};
  }
  Shape AffineShape(const Shape& input) const override { return {input[1]}; }
};

class InstanceNorm final : public GroupNormBase {
 public:
  explicit InstanceNorm(const LayerParameter& param)
      : GroupNormBase(param, RuleOf(param.instance_norm_param())) {
    ValidateEps(*this, param.instance_norm_param().eps(), "instance_norm_param.eps");
  }

 private:
  NormLayout Arrange(const Shape& input) const override {
    RequireChannels(*this, input);
    return {LeadingLayout(input, 2), ChannelLayout(input, 1)};
  }
  Shape AffineShape(const Shape& input) const override { return {input[1]}; }
};

}  // namespace

void RegisterGroupNorm(Registry& registry) {
  LayerType type;
  type.name = "GroupNorm";
  type.traits = {.fits_16_bits = true};
  type.category = "normalization";
  type.summary =
      "Zero mean and unit variance over groups of channels of each sample, whatever the batch "
      "size, then a learned scale and bias for each channel (Wu, He: Group Normalization, 2018).";
  type.formula =
      "y = (x - mean) / sqrt(var + eps) * scale[c] + bias[c]; mean and var over the channels of a "
      "group and all pixels";
  type.input_docs = {"x: N x C x any further axes"};
  type.output_docs = {"y: the shape of x"};
  type.parameter_docs = {"scale: C; only with affine", "bias: C; only with affine"};
  type.origin = "Crema";
  type.param_fields = {"group_norm_param"};
  type.make = [](const LayerParameter& p) { return std::make_unique<const GroupNorm>(p); };
  type.samples = {
      {.name = "two_groups",
       .prototxt = "group_norm_param { group: 2 }",
       .inputs = {{.shape = {2, 6, 3, 4}}}},
      {.name = "one_group_no_affine",
       .prototxt = "group_norm_param { group: 1 affine: false eps: 0.01 }",
       .inputs = {{.shape = {3, 2, 5}}}},
      {.name = "default_of_32_without_pixels",
       .prototxt =
           "group_norm_param { eps: 0.1 weight_filler { value: 2 } bias_filler { value: 1 } }",
       .inputs = {{.shape = {2, 96}}}},
      {.name = "large",
       .prototxt = "group_norm_param { group: 4 }",
       .inputs = {{.shape = {3, 8, 20, 21}}}},
      {.name = "empty_batch",
       .prototxt = "group_norm_param { group: 2 }",
       .inputs = {{.shape = {0, 4, 3}}}},
  };
  type.bad_samples = {
      {"", {{2, 20, 3, 3}}, "20 channels"},
      {"", {{64}}, "channel axis"},
      {"group_norm_param { group: 0 }", {{2, 4}}, "above 0"},
      {"group_norm_param { eps: -1 }", {{2, 4}}, "eps is -1"},
  };
  registry.Add(std::move(type));
}

void RegisterInstanceNorm(Registry& registry) {
  LayerType type;
  type.name = "InstanceNorm";
  type.traits = {.fits_16_bits = true};
  type.category = "normalization";
  type.summary =
      "Zero mean and unit variance of each channel of each sample, then optionally a learned scale "
      "and bias for each channel (Ulyanov, Vedaldi, Lempitsky: Instance Normalization, 2016).";
  type.formula =
      "y = (x - mean) / sqrt(var + eps) * scale[c] + bias[c]; mean and var over the pixels of one "
      "channel of one sample";
  type.input_docs = {"x: N x C x any further axes"};
  type.output_docs = {"y: the shape of x"};
  type.parameter_docs = {"scale: C; only with affine", "bias: C; only with affine"};
  type.origin = "Crema";
  type.param_fields = {"instance_norm_param"};
  type.make = [](const LayerParameter& p) { return std::make_unique<const InstanceNorm>(p); };
  type.samples = {
      {.name = "plain", .prototxt = "", .inputs = {{.shape = {2, 3, 4, 5}}}},
      {.name = "affine",
       .prototxt = "instance_norm_param { affine: true eps: 0.1 weight_filler { value: 2 } "
                   "bias_filler { value: 1 } }",
       .inputs = {{.shape = {2, 3, 7}}}},
      {.name = "single_pixel",
       .prototxt = "instance_norm_param { eps: 0.5 }",
       .inputs = {{.shape = {2, 3}}}},
      {.name = "empty_batch", .prototxt = "", .inputs = {{.shape = {0, 3, 4}}}},
  };
  type.bad_samples = {
      {"", {{6}}, "channel axis"},
      {"instance_norm_param { eps: -1 }", {{2, 3}}, "eps is -1"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
