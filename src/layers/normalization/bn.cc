// BN: y = scale * (x - mean) / sqrt(variance + eps) + shift for each channel. One name, three
// dialects, distinguished by the fields that are set:
//   bn_mode, or only scale_filler and shift_filler: SegNet. Two blobs, scale and shift.
//     LEARN always uses the statistics of the batch; INFERENCE is y = scale * x + shift (SegNet's
//     script folds the statistics into the blobs). eps is 1e-9.
//   var_eps, moving_average or decay: PSPNet. Four blobs: scale, shift, mean, variance.
//     running = (1 - decay) * running + decay * new; used in TEST with moving_average.
//   anything else: yjxiong's, also in PSPNet with cuDNN. Four blobs: slope, bias, mean, variance.
//     running = momentum * running + (1 - momentum) * new; used in TEST, and in TRAIN if frozen.
#include <memory>

#include "core/strings.h"
#include "crema.pb.h"
#include "layers/int8_ranges.h"
#include "layers/layer_axis.h"
#include "layers/normalization/batch_norm_base.h"
#include "layers/normalization/group_norm_base.h"
#include "layers/parameter_shapes.h"

namespace crema {
namespace {

using Rule = BatchNormRule;

enum class Dialect { kSegNet, kPspNet, kYjxiong };

bool HasPspNetFields(const BNParameter& p) {
  return p.has_var_eps() || p.has_moving_average() || p.has_decay();
}
bool HasYjxiongFields(const BNParameter& p) {
  return p.has_momentum() || p.has_eps() || p.has_frozen() || p.has_slope_filler() ||
         p.has_bias_filler();
}

Dialect DialectOf(const BNParameter& p) {
  if (p.has_bn_mode()) return Dialect::kSegNet;
  if (HasPspNetFields(p)) return Dialect::kPspNet;
  if (HasYjxiongFields(p) || p.has_axis() || p.has_engine()) return Dialect::kYjxiong;
  return p.has_scale_filler() || p.has_shift_filler() ? Dialect::kSegNet : Dialect::kYjxiong;
}

void AddStatistics(float variance, Rule* rule) {
  rule->mean = 2;
  rule->variance = 3;
  rule->blobs.push_back({"mean", FillerOr(false, {}, 0), true});
  rule->blobs.push_back({"variance", FillerOr(false, {}, variance), true});
}

Rule RuleOf(const BNParameter& p) {
  Rule rule;
  rule.axis = p.axis();
  rule.sync = p.sync();
  rule.scale = 0;
  rule.shift = 1;
  rule.blob_axes = 4;
  rule.blobs = {
      {"scale", p.has_slope_filler() ? p.slope_filler() : p.scale_filler()},
      {"shift", p.has_bias_filler() ? p.bias_filler() : p.shift_filler()},
  };
  switch (DialectOf(p)) {
    case Dialect::kSegNet:
      rule.eps = 1e-9;
      rule.stored = Rule::Stored::kNever;
      rule.identity = p.bn_mode() == BNParameter::INFERENCE;
      break;
    case Dialect::kPspNet:
      AddStatistics(0, &rule);
      rule.eps = p.var_eps();
      rule.stored = p.moving_average() ? Rule::Stored::kInTest : Rule::Stored::kNever;
      rule.keep = 1 - p.decay();
      rule.add = p.decay();
      break;
    case Dialect::kYjxiong:
      AddStatistics(p.frozen() ? 1 : 0, &rule);
      rule.blob_axes = 2;
      rule.eps = p.eps();
      rule.stored = p.frozen() ? Rule::Stored::kAlways : Rule::Stored::kInTest;
      rule.keep = p.momentum();
      rule.add = 1 - rule.keep;
      for (Rule::Blob& blob : rule.blobs) blob.statistic = blob.statistic || p.frozen();
      break;
  }
  return rule;
}

class BN final : public BatchNormBase {
 public:
  explicit BN(const LayerParameter& param) : BatchNormBase(param, RuleOf(param.bn_param())) {
    const BNParameter& p = param.bn_param();
    const Dialect dialect = DialectOf(p);
    if ((dialect == Dialect::kSegNet && (HasPspNetFields(p) || HasYjxiongFields(p))) ||
        (HasPspNetFields(p) && HasYjxiongFields(p))) {
      FailField(*this, "bn_param",
                "the fields are of several kinds of BN: bn_mode is SegNet's, var_eps, "
                "moving_average and decay are PSPNet's, momentum, eps, frozen, slope_filler and "
                "bias_filler are yjxiong's; keep those of one");
    }
    ValidateEps(*this, p.eps(), "bn_param.eps");
    ValidateEps(*this, p.var_eps(), "bn_param.var_eps");
    RequireFraction(p.decay(), "decay");
    RequireFraction(p.momentum(), "momentum");
    if (p.axis() < 0) FailField(*this, "bn_param.axis", "axis must be 0 or more");
    const bool both_scales = p.has_scale_filler() && p.has_slope_filler();
    if (both_scales || (p.has_shift_filler() && p.has_bias_filler())) {
      FailField(*this, both_scales ? "bn_param.slope_filler" : "bn_param.bias_filler",
                "slope_filler is scale_filler, and bias_filler is shift_filler, under another "
                "name; give one of them");
    }
  }

 private:
  void RequireFraction(double value, const std::string& field) const {
    if (value >= 0 && value <= 1) return;
    FailField(*this, "bn_param." + field,
              StrCat(field, " is ", value, ", but must be from 0 to 1"));
  }
};

std::vector<LayerSample> Samples() {
  const SampleInput input{.shape = {3, 4, 2, 5}};
  const std::string fillers = "scale_filler { value: 1 } shift_filler { value: 0.001 } ";
  return {
      {.name = "segnet", .prototxt = "bn_param { " + fillers + "}", .inputs = {input}},
      {.name = "segnet_learn_in_test",
       .prototxt = "bn_param { bn_mode: LEARN }",
       .inputs = {input},
       .phase = TEST},
      {.name = "segnet_inference",
       .prototxt = "bn_param { " + fillers + "bn_mode: INFERENCE }",
       .inputs = {input}},
      {.name = "pspnet",
       .prototxt = "bn_param { " + fillers + "moving_average: true decay: 0.05 }",
       .inputs = {input}},
      {.name = "pspnet_test",
       .prototxt = "bn_param { " + fillers + "moving_average: true var_eps: 0.01 }",
       .inputs = {input},
       .phase = TEST},
      {.name = "pspnet_batch_in_test",
       .prototxt = "bn_param { " + fillers + "var_eps: 0.01 }",
       .inputs = {input},
       .phase = TEST},
      {.name = "yjxiong",
       .prototxt = "bn_param { slope_filler { value: 1 } bias_filler { value: 0 } momentum: 0.9 }",
       .inputs = {input}},
      {.name = "yjxiong_frozen", .prototxt = "bn_param { frozen: true }", .inputs = {input}},
      {.name = "yjxiong_test", .prototxt = "", .inputs = {input}, .phase = TEST},
      {.name = "axis_2", .prototxt = "bn_param { axis: 2 eps: 0.1 }", .inputs = {input}},
      {.name = "vectors", .prototxt = "", .inputs = {{.shape = {6, 5}}}},
      {.name = "empty_batch", .prototxt = "", .inputs = {{.shape = {0, 3, 2, 2}}}},
  };
}

}  // namespace

void RegisterBN(Registry& registry) {
  LayerType type;
  type.name = "BN";
  type.traits = {.computes_on_bytes = true};
  type.category = "normalization";
  type.summary =
      "Batch normalisation with its own scale and shift, in the dialects of SegNet, PSPNet and "
      "yjxiong's Caffe.";
  type.formula =
      "y = scale[c] * (x - mean[c]) / sqrt(var[c] + eps) + shift[c]. SegNet (bn_mode, or only "
      "scale_filler and shift_filler): statistics of the batch; INFERENCE: y = scale * x + shift. "
      "PSPNet (var_eps, moving_average or decay): stored ones in TEST with moving_average. yjxiong "
      "(else): stored ones in TEST and where frozen";
  type.input_docs = {"x: N x C x any further axes"};
  type.output_docs = {"y: the shape of x"};
  type.parameter_docs = {"scale (slope): 1 x C x 1 x 1; yjxiong: 1 x C", "shift (bias): the same",
                         "mean: the same, a statistic; not SegNet",
                         "variance: the same, a statistic; not SegNet"};
  type.differences = {
      "The dialect is chosen by the fields, since the forks use one name; fields of two dialects "
      "are refused.",
      "SegNet's additional tops with mean and variance of the batch are not available.",
      "Files of yjxiong's Caffe that hold 1 / sqrt(var + eps) in place of the variance (cuDNN v4) "
      "look the same: convert them first, with the fork's script inv_std_to_var.",
      "eps is fixed to 1e-9 in SegNet's dialect, as in SegNet."};
  type.origin = "SegNet, PSPNet, yjxiong";
  type.param_fields = {"bn_param"};
  type.adapt_blobs = [](const LayerParameter&, const LayerInfo& info,
                        std::vector<BlobProto>* blobs) { GiveParameterShapes(info, blobs); };
  type.make = [](const LayerParameter& p) { return std::make_unique<const BN>(p); };
  type.implementations = BatchNormBase::BlockedImplementations();
  type.implementations.push_back(Int8ByFloats());
  type.samples = Samples();
  type.bad_samples = {
      {"bn_param { bn_mode: LEARN momentum: 0.9 }", {{2, 3}}, "several kinds of BN"},
      {"bn_param { decay: 0.1 frozen: true }", {{2, 3}}, "several kinds of BN"},
      {"bn_param { decay: 2 }", {{2, 3}}, "decay is 2"},
      {"bn_param { momentum: -1 }", {{2, 3}}, "momentum is"},
      {"bn_param { eps: -1 }", {{2, 3}}, "eps is -1"},
      {"bn_param { axis: -1 }", {{2, 3}}, "0 or more"},
      {"bn_param { slope_filler {} scale_filler {} }", {{2, 3}}, "under another name"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
