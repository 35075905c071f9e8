// MVN: y = (x - mean) / (sqrt(variance) + eps) over each plane, or over each whole sample with
// across_channels. With s = 1 / (sqrt(variance) + eps) and means over the same elements,
// dx = s * (dy - mean dy) - y * mean(dy * y) / sqrt(variance).
#include <memory>

#include "crema.pb.h"
#include "layers/normalization/group_norm_base.h"

namespace crema {
namespace {

GroupNormRule RuleOf(const MVNParameter& p) {
  return {.measure = p.normalize_variance() ? NormMeasure::kDeviation : NormMeasure::kMean,
          .eps = p.eps()};
}

class MVN final : public GroupNormBase {
 public:
  explicit MVN(const LayerParameter& param) : GroupNormBase(param, RuleOf(param.mvn_param())) {
    ValidateEps(*this, param.mvn_param().eps(), "mvn_param.eps");
  }

 private:
  NormLayout Arrange(const Shape& input) const override {
    const GroupLayout groups = LeadingLayout(input, param().mvn_param().across_channels() ? 1 : 2);
    return {groups, groups};
  }
  Shape AffineShape(const Shape&) const override { return {}; }
};

}  // namespace

void RegisterMVN(Registry& registry) {
  LayerType type;
  type.name = "MVN";
  type.category = "normalization";
  type.summary =
      "Zero mean and, optionally, unit variance of each channel of each sample, or of each sample.";
  type.formula =
      "y = (x - mean) / (sqrt(var) + eps); mean and var over a plane, or over a sample with "
      "across_channels; normalize_variance: false leaves the division out";
  type.input_docs = {"x: N x C x any further axes; missing axes count as 1"};
  type.output_docs = {"y: the shape of x"};
  type.differences = {
      "Caffe always gives a top of four axes, and refuses more; here the top has the shape of the "
      "bottom, with any number of axes.",
      "Caffe's gradient ignores eps, which matters only if eps is not small against the deviation; "
      "here it is the derivative.",
      "A plane of equal values with eps 0 gives 0; Caffe divides 0 by 0."};
  type.param_fields = {"mvn_param"};
  type.make = [](const LayerParameter& p) { return std::make_unique<const MVN>(p); };
  const SampleInput input{.shape = {2, 3, 4, 5}};
  type.samples = {
      {.name = "planes", .prototxt = "", .inputs = {input}},
      {.name = "across_channels",
       .prototxt = "mvn_param { across_channels: true }",
       .inputs = {input}},
      {.name = "mean_only",
       .prototxt = "mvn_param { normalize_variance: false }",
       .inputs = {input}},
      {.name = "large_eps", .prototxt = "mvn_param { eps: 0.5 }", .inputs = {input}},
      {.name = "mean_only_across",
       .prototxt = "mvn_param { normalize_variance: false across_channels: true }",
       .inputs = {{.shape = {3, 7}}}},
      {.name = "five_axes", .prototxt = "", .inputs = {{.shape = {2, 2, 3, 2, 3}}}},
      {.name = "empty_batch", .prototxt = "", .inputs = {{.shape = {0, 3, 2, 2}}}},
  };
  type.bad_samples = {
      {"mvn_param { eps: -1 }", {{2, 3, 4}}, "eps is -1"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
