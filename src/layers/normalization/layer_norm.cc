// LayerNorm: y = (x - mean) / sqrt(variance + eps) * scale + bias, with mean and variance over the
// axes from `axis` on, and a scale and a bias for each element of them (Ba, Kiros and Hinton 2016).
#include <memory>

#include "crema.pb.h"
#include "layers/normalization/group_norm_base.h"

namespace crema {
namespace {

GroupNormRule RuleOf(const LayerNormParameter& p) {
  return {.measure = NormMeasure::kVariance,
          .eps = p.eps(),
          .scale = p.affine(),
          .shift = p.affine() && p.bias_term(),
          .scale_filler = FillerOr(p.has_weight_filler(), p.weight_filler(), 1),
          .shift_filler = FillerOr(p.has_bias_filler(), p.bias_filler(), 0)};
}

class LayerNorm final : public TrailingNorm {
 public:
  explicit LayerNorm(const LayerParameter& param)
      : TrailingNorm(param, RuleOf(param.layer_norm_param()), param.layer_norm_param().axis(),
                     "layer_norm_param.axis") {
    ValidateEps(*this, param.layer_norm_param().eps(), "layer_norm_param.eps");
    if (!param.layer_norm_param().affine() && param.layer_norm_param().has_bias_term() &&
        param.layer_norm_param().bias_term()) {
      FailField(*this, "layer_norm_param.bias_term",
                "bias_term: true needs affine: true; remove one of them");
    }
  }
};

}  // namespace

void RegisterLayerNorm(Registry& registry) {
  LayerType type;
  type.name = "LayerNorm";
  type.traits = {.fits_16_bits = true};
  type.category = "normalization";
  type.summary =
      "Zero mean and unit variance over the last axes of each sample, then a learned scale and "
      "bias for each element (Ba, Kiros, Hinton: Layer Normalization, 2016).";
  type.formula =
      "y = (x - mean(x)) / sqrt(var(x) + eps) * scale + bias; mean and var over the axes from axis "
      "on";
  type.input_docs = {"x: any shape with at least one axis"};
  type.output_docs = {"y: the shape of x"};
  type.parameter_docs = {"scale: the shape of x from axis on; only with affine",
                         "bias: the same; only with affine and bias_term"};
  type.origin = "Crema";
  type.param_fields = {"layer_norm_param"};
  type.make = [](const LayerParameter& p) { return std::make_unique<const LayerNorm>(p); };
  type.samples = {
      {.name = "last_axis", .prototxt = "", .inputs = {{.shape = {3, 4, 6}}}},
      {.name = "two_axes",
       .prototxt = "layer_norm_param { axis: 1 eps: 0.1 bias_filler { value: 0.5 } }",
       .inputs = {{.shape = {2, 3, 5}}}},
      {.name = "whole_blob",
       .prototxt = "layer_norm_param { axis: 0 }",
       .inputs = {{.shape = {7}}}},
      {.name = "no_bias",
       .prototxt = "layer_norm_param { bias_term: false weight_filler { type: \"xavier\" } }",
       .inputs = {{.shape = {5, 4}}}},
      {.name = "no_affine",
       .prototxt = "layer_norm_param { affine: false }",
       .inputs = {{.shape = {4, 70}}}},
      {.name = "wide", .prototxt = "", .inputs = {{.shape = {40, 600}}}},
      {.name = "empty_batch", .prototxt = "", .inputs = {{.shape = {0, 4}}}},
  };
  type.bad_samples = {
      {"layer_norm_param { axis: 2 }", {{2, 3}}, "axis 2"},
      {"layer_norm_param { eps: -1 }", {{2, 3}}, "eps is -1"},
      {"layer_norm_param { affine: false bias_term: true }", {{2, 3}}, "needs affine"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
