// BatchNorm: y = (x - mean) / sqrt(variance + eps) for each channel. Mean and variance are those of
// the batch, or running ones.
// BVLC's layer stores sums and their factor: with f = moving_average_fraction, sum = f * sum + new,
// factor = f * factor + 1. NVCaffe's (scale_bias) stores averages: average = f * average + (1 - f)
// * new.
#include <cmath>
#include <memory>

#include "core/strings.h"
#include "crema.pb.h"
#include "layers/int8_ranges.h"
#include "layers/normalization/batch_norm_base.h"
#include "layers/normalization/batch_norm_blobs.h"
#include "layers/normalization/group_norm_base.h"

namespace crema {
namespace {

using Rule = BatchNormRule;

constexpr double kNvidiaEps = 1e-5;  // minimum in NVCaffe

void AddAffine(const BatchNormParameter& p, bool bias, Rule* rule) {
  const FillerParameter& scale = p.has_filler() ? p.filler() : p.scale_filler();
  rule->scale = static_cast<int>(rule->blobs.size());
  rule->blobs.push_back({"scale", FillerOr(p.has_filler() || p.has_scale_filler(), scale, 1)});
  if (!bias) return;
  rule->shift = static_cast<int>(rule->blobs.size());
  rule->blobs.push_back({"bias", FillerOr(p.has_bias_filler(), p.bias_filler(), 0)});
}

Rule RuleOf(const BatchNormParameter& p) {
  const FillerParameter zero = FillerOr(false, {}, 0);
  const bool nvidia = p.scale_bias();
  Rule rule;
  rule.eps = p.eps();
  rule.relu.on = p.relu();
  rule.sync = p.sync();
  rule.blobs = {{nvidia ? kMeanAverage : kMeanSum, zero, true},
                {nvidia ? "variance" : "variance sum", zero, true},
                {"factor", zero, true, true}};
  rule.mean = 0;
  rule.variance = 1;
  rule.factor = 2;
  rule.unbiased = true;
  rule.keep = p.moving_average_fraction();
  rule.add = 1;
  rule.factor_add = 1;
  rule.stored = !p.has_use_global_stats() ? Rule::Stored::kInTest
                : p.use_global_stats()    ? Rule::Stored::kAlways
                                          : Rule::Stored::kNever;
  if (nvidia) {
    rule.eps = std::max(rule.eps, kNvidiaEps);
    rule.add = 1 - rule.keep;
    rule.factor_add = 0;
    rule.first_replaces = true;
    // NVCaffe's default is false, and TEST uses the running statistics nevertheless.
    if (rule.stored == Rule::Stored::kNever) rule.stored = Rule::Stored::kInTest;
    AddAffine(p, true, &rule);
  } else if (p.has_use_weight_bias() && p.use_weight_bias()) {
    AddAffine(p, p.bias_term(), &rule);
  }
  return rule;
}

class BatchNorm final : public BatchNormBase {
 public:
  explicit BatchNorm(const LayerParameter& param)
      : BatchNormBase(param, RuleOf(param.batch_norm_param())) {
    const BatchNormParameter& p = param.batch_norm_param();
    ValidateEps(*this, p.eps(), "batch_norm_param.eps");
    const double fraction = p.moving_average_fraction();
    if (!(fraction >= 0 && fraction <= 1)) {
      FailField(*this, "batch_norm_param.moving_average_fraction",
                StrCat("moving_average_fraction is ", fraction, ", but must be from 0 to 1"));
    }
    if (p.has_filler() && p.has_scale_filler()) {
      FailField(*this, "batch_norm_param.filler",
                "filler and scale_filler both fill the scale; give one of them");
    }
  }
};

std::vector<LayerSample> Samples() {
  const SampleInput input{.shape = {3, 4, 2, 5}};
  const auto param = [](const std::string& fields) {
    return "batch_norm_param { " + fields + " }";
  };
  return {
      {.name = "train", .prototxt = param("moving_average_fraction: 0.95"), .inputs = {input}},
      {.name = "test", .prototxt = "", .inputs = {input}, .phase = TEST},
      {.name = "global_in_train", .prototxt = param("use_global_stats: true"), .inputs = {input}},
      {.name = "batch_in_test",
       .prototxt = param("use_global_stats: false eps: 0.1"),
       .inputs = {input},
       .phase = TEST},
      {.name = "vectors", .prototxt = "", .inputs = {{.shape = {6, 70}}}},
      {.name = "one_axis", .prototxt = "", .inputs = {{.shape = {9}}}},
      {.name = "five_axes", .prototxt = "", .inputs = {{.shape = {2, 3, 2, 3, 2}}}},
      {.name = "large", .prototxt = "", .inputs = {{.shape = {4, 6, 40, 41}}}},
      {.name = "scale_bias",
       .prototxt = param("scale_bias: true scale_filler { value: 2 } bias_filler { value: 1 }"),
       .inputs = {input}},
      {.name = "scale_bias_test",
       .prototxt = param("scale_bias: true use_global_stats: false"),
       .inputs = {input},
       .phase = TEST},
      {.name = "scale_bias_global",
       .prototxt = param("scale_bias: true use_global_stats: true eps: 0"),
       .inputs = {input}},
      {.name = "weight_without_bias",
       .prototxt = param("use_weight_bias: true bias_term: false filler { value: 3 }"),
       .inputs = {input}},
      {.name = "weight_bias_relu",
       .prototxt = param("use_weight_bias: true relu: true"),
       .inputs = {{.shape = {2, 2, 3, 3}}}},
      {.name = "whole_blocks", .prototxt = "", .inputs = {{.shape = {3, 32, 2, 3}}}},
      {.name = "whole_blocks_scale",
       .prototxt = param("scale_bias: true"),
       .inputs = {{.shape = {2, 16, 3, 3}}}},
      {.name = "whole_blocks_relu",
       .prototxt = param("use_weight_bias: true relu: true"),
       .inputs = {{.shape = {2, 16, 3, 3}}}},
      {.name = "whole_blocks_test",
       .prototxt = "",
       .inputs = {{.shape = {2, 48, 3, 1}}},
       .phase = TEST},
      {.name = "empty_batch", .prototxt = param("scale_bias: true"), .inputs = {{.shape = {0, 3}}}},
  };
}

}  // namespace

void RegisterBatchNorm(Registry& registry) {
  LayerType type;
  type.name = "BatchNorm";
  type.traits = {.fits_16_bits = true, .computes_on_bytes = true};
  type.category = "normalization";
  type.summary =
      "Zero mean and unit variance of each channel over the batch, or by stored statistics. A "
      "Scale layer with bias_term after it, or scale_bias: true, adds a learned scale and bias.";
  type.formula =
      "y = (x - mean[c]) / sqrt(var[c] + eps), times scale[c] plus bias[c] with scale_bias. Stored "
      "in TRAIN: sum = f * sum + new, factor = f * factor + 1, with the variance times m / (m - 1) "
      "for m values a channel; used as sum / factor";
  type.input_docs = {"x: N x C x any further axes; with one axis all of it is one channel"};
  type.output_docs = {"y: the shape of x"};
  type.parameter_docs = {"mean sum: C, a statistic; with scale_bias the average itself",
                         "variance sum: C, a statistic; with scale_bias the average itself",
                         ("factor: 1 value, a statistic: the divisor of the sums; 0 means no "
                          "statistics yet; with scale_bias it is 1 from the first pass on"),
                         "scale: C; only with scale_bias or use_weight_bias",
                         "bias: C; only with scale_bias or use_weight_bias"};
  type.differences = {
      "A test net never changes the statistics; Caffe's does with use_global_stats: false.",
      "Caffe refuses multipliers other than 0 for the three statistics; here they have no effect.",
      ("scale_bias: true is NVCaffe's layer: averages in place of sums, the first pass replaces "
       "them, eps is at least 1e-5, TEST always uses the stored ones."),
      ("use_weight_bias has an effect only if the text sets it to true (in IntelCaffe, MKL engines "
       "use its default); the engine itself is a hint."),
      "Files of BVLC, NVCaffe, and old DIGITS order are read into either form."};
  type.param_fields = {"batch_norm_param"};
  type.unread_fields = {"batch_norm_param.stats_batch_size"};
  type.adapt_blobs = AdaptBatchNormBlobs;
  type.make = [](const LayerParameter& p) { return std::make_unique<const BatchNorm>(p); };
  type.implementations = BatchNormBase::BlockedImplementations();
  type.implementations.push_back(Int8ByFloats());
  type.samples = Samples();
  type.bad_samples = {
      {"batch_norm_param { eps: -1 }", {{2, 3}}, "eps is -1"},
      {"batch_norm_param { moving_average_fraction: 1.5 }", {{2, 3}}, "from 0 to 1"},
      {"batch_norm_param { filler {} scale_filler {} }", {{2, 3}}, "give one of them"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
