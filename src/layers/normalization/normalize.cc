// Normalize (SSD): y = scale * x / sqrt(sum of x^2 + eps), with the sum over a sample or over the
// channels of each pixel.
#include <memory>

#include "core/strings.h"
#include "crema.pb.h"
#include "layers/normalization/group_norm_base.h"

namespace crema {
namespace {

GroupNormRule RuleOf(const NormalizeParameter& p) {
  return {.measure = NormMeasure::kSumOfSquares,
          .eps = p.eps(),
          .scale = true,
          .scale_filler = FillerOr(p.has_scale_filler(), p.scale_filler(), 1)};
}

class Normalize final : public GroupNormBase {
 public:
  explicit Normalize(const LayerParameter& param)
      : GroupNormBase(param, RuleOf(param.norm_param())) {
    ValidateEps(*this, param.norm_param().eps(), "norm_param.eps");
  }

 private:
  const NormalizeParameter& given() const { return param().norm_param(); }
  NormLayout Arrange(const Shape& input) const override {
    if (input.axes() < 2) {
      FailInputs(*this, StrCat("Normalize needs a batch axis and a channel axis, but the input is ",
                               ToString(input)));
    }
    const GroupLayout pixels{input[0], input[1], input.count(2), 1};
    const GroupLayout all{1, 1, 1, input.count()};
    return {given().across_spatial() ? LeadingLayout(input, 1) : pixels,
            given().channel_shared() ? all : ChannelLayout(input, 1)};
  }
  Shape AffineShape(const Shape& input) const override {
    return given().channel_shared() ? Shape() : Shape{input[1]};
  }
};

}  // namespace

void RegisterNormalize(Registry& registry) {
  LayerType type;
  type.name = "Normalize";
  type.category = "normalization";
  type.summary = "Unit L2 norm of each sample or of each pixel, then a learned scale.";
  type.formula =
      "y = scale[c] * x / sqrt(sum(x^2) + eps); the sum is over a sample, or over the channels of "
      "a pixel with across_spatial: false";
  type.input_docs = {"x: N x C x any further axes"};
  type.output_docs = {"y: the shape of x"};
  type.parameter_docs = {"scale: one value without axes, or C with channel_shared: false"};
  type.differences = {
      "SSD computes the gradient of the scale by dividing by the scale, so that a scale of 0 gives "
      "NaN; here it does not.",
      "SSD takes four axes; here any number from two."};
  type.origin = "SSD";
  type.param_fields = {"norm_param"};
  type.make = [](const LayerParameter& p) { return std::make_unique<const Normalize>(p); };
  const SampleInput input{.shape = {2, 3, 4, 5}};
  type.samples = {
      {.name = "ssd_conv4_3",
       .prototxt = "norm_param { across_spatial: false channel_shared: false scale_filler { type: "
                   "\"constant\" value: 20 } }",
       .inputs = {input}},
      {.name = "whole_sample", .prototxt = "", .inputs = {input}},
      {.name = "pixels_shared",
       .prototxt = "norm_param { across_spatial: false }",
       .inputs = {input}},
      {.name = "sample_by_channel",
       .prototxt = "norm_param { channel_shared: false eps: 0.5 }",
       .inputs = {{.shape = {3, 4, 70}}}},
      {.name = "vectors", .prototxt = "", .inputs = {{.shape = {3, 5}}}},
      {.name = "many_pixels",
       .prototxt = "norm_param { across_spatial: false }",
       .inputs = {{.shape = {2, 9, 15, 14}}}},
      {.name = "empty_batch",
       .prototxt = "norm_param { channel_shared: false }",
       .inputs = {{.shape = {0, 3, 2, 2}}}},
  };
  type.bad_samples = {
      {"", {{3}}, "channel axis"},
      {"norm_param { eps: -1 }", {{2, 3}}, "eps is -1"},
  };
  registry.Add(std::move(type));
}

// The name in prototxt files for TensorRT and OpenVINO.
void RegisterNormalizeBBox(Registry& registry) { registry.AddAlias("NormalizeBBox", "Normalize"); }

}  // namespace crema
