// RMSNorm: y = x / sqrt(mean of x^2 + eps) * scale, over the axes from `axis` on (Zhang and
// Sennrich 2019). LayerNorm without the mean and the bias.
#include <memory>

#include "crema.pb.h"
#include "layers/normalization/group_norm_base.h"

namespace crema {
namespace {

GroupNormRule RuleOf(const RMSNormParameter& p) {
  return {.measure = NormMeasure::kMeanSquare,
          .eps = p.eps(),
          .scale = p.affine(),
          .scale_filler = FillerOr(p.has_weight_filler(), p.weight_filler(), 1)};
}

class RMSNorm final : public TrailingNorm {
 public:
  explicit RMSNorm(const LayerParameter& param)
      : TrailingNorm(param, RuleOf(param.rms_norm_param()), param.rms_norm_param().axis(),
                     "rms_norm_param.axis") {
    ValidateEps(*this, param.rms_norm_param().eps(), "rms_norm_param.eps");
  }
};

}  // namespace

void RegisterRMSNorm(Registry& registry) {
  LayerType type;
  type.name = "RMSNorm";
  type.traits = {.fits_16_bits = true};
  type.category = "normalization";
  type.summary =
      "Unit root mean square over the last axes of each sample, then a learned scale for each "
      "element (Zhang, Sennrich: Root Mean Square Layer Normalization, 2019).";
  type.formula = "y = x / sqrt(mean(x^2) + eps) * scale; the mean is over the axes from axis on";
  type.input_docs = {"x: any shape with at least one axis"};
  type.output_docs = {"y: the shape of x"};
  type.parameter_docs = {"scale: the shape of x from axis on; only with affine"};
  type.origin = "Crema";
  type.param_fields = {"rms_norm_param"};
  type.make = [](const LayerParameter& p) { return std::make_unique<const RMSNorm>(p); };
  type.samples = {
      {.name = "last_axis", .prototxt = "", .inputs = {{.shape = {3, 4, 6}}}},
      {.name = "two_axes",
       .prototxt = "rms_norm_param { axis: -2 eps: 0.1 weight_filler { value: 2 } }",
       .inputs = {{.shape = {2, 3, 5}}}},
      {.name = "no_affine",
       .prototxt = "rms_norm_param { affine: false }",
       .inputs = {{.shape = {4, 70}}}},
      {.name = "empty_batch", .prototxt = "", .inputs = {{.shape = {0, 4}}}},
  };
  type.bad_samples = {
      {"rms_norm_param { axis: -3 }", {{2, 3}}, "axis -3"},
      {"rms_norm_param { eps: -1 }", {{2, 3}}, "eps is -1"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
