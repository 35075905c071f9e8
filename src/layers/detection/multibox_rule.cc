#include <cmath>

#include "core/strings.h"
#include "crema.pb.h"
#include "layers/detection/multibox_image.h"

namespace crema {
namespace {

bool WantsInput(const LayerParameter& param, int input) {
  return input >= param.propagate_down_size() || param.propagate_down(input);
}

// do_neg_mining is the older equivalent of mining_type.
MultiBoxLossParameter::MiningType MiningOf(const Layer& layer) {
  const MultiBoxLossParameter& p = layer.param().multibox_loss_param();
  if (!p.has_do_neg_mining()) return p.mining_type();
  if (!p.has_mining_type()) {
    return p.do_neg_mining() ? MultiBoxLossParameter::MAX_NEGATIVE : MultiBoxLossParameter::NONE;
  }
  if (p.do_neg_mining() != (p.mining_type() != MultiBoxLossParameter::NONE)) {
    FailField(layer, "multibox_loss_param.do_neg_mining",
              "do_neg_mining contradicts mining_type; leave do_neg_mining out");
  }
  return p.mining_type();
}

void CheckRanges(const Layer& layer) {
  const MultiBoxLossParameter& p = layer.param().multibox_loss_param();
  const auto fail = [&](const char* field, double value, const char* expected) {
    FailField(layer, StrCat("multibox_loss_param.", field),
              StrCat(field, " is ", value, ", expected ", expected));
  };
  if (p.background_label_id() >= p.num_classes()) {
    fail("background_label_id", p.background_label_id(), "a class below num_classes");
  }
  if (p.map_object_to_agnostic() && p.background_label_id() + 1 >= p.num_classes()) {
    fail("num_classes", p.num_classes(), "a class after the background, for all objects");
  }
  if (!std::isfinite(p.loc_weight())) fail("loc_weight", p.loc_weight(), "a finite number");
  if (!(p.overlap_threshold() > 0)) fail("overlap_threshold", p.overlap_threshold(), "more than 0");
  if (!(p.neg_pos_ratio() >= 0)) fail("neg_pos_ratio", p.neg_pos_ratio(), "0 or more");
  if (p.sample_size() < 0) fail("sample_size", p.sample_size(), "0 or more");
}

}  // namespace

MultiBoxRule MakeMultiBoxRule(const Layer& layer) {
  const MultiBoxLossParameter& p = layer.param().multibox_loss_param();
  MultiBoxRule rule;
  rule.classes = RequireClasses(layer, p.has_num_classes(), p.num_classes(), "multibox_loss_param");
  CheckRanges(layer);
  rule.background = p.background_label_id();
  rule.box_classes = p.share_location() ? 1 : rule.classes;
  rule.agnostic = p.map_object_to_agnostic();
  rule.code = CodeOf(p.code_type());
  rule.smooth_l1 = p.loc_loss_type() == MultiBoxLossParameter::SMOOTH_L1;
  rule.logistic = p.conf_loss_type() == MultiBoxLossParameter::LOGISTIC;
  rule.want_loc = WantsInput(layer.param(), 0);
  rule.want_conf = WantsInput(layer.param(), 1);
  rule.bp_inside = p.bp_inside();
  rule.match = {.per_prediction = p.match_type() == MultiBoxLossParameter::PER_PREDICTION,
                .overlap_threshold = double{p.overlap_threshold()},
                .ignore_outside = p.ignore_cross_boundary_bbox()};
  rule.match_priors = p.use_prior_for_matching();
  rule.mining = MiningOf(layer);
  if (rule.mining != MultiBoxLossParameter::NONE && !p.share_location()) {
    FailField(layer, "multibox_loss_param.share_location",
              "share_location: false needs mining_type: NONE");
  }
  rule.negatives_per_match = double{p.neg_pos_ratio()};
  rule.negative_overlap = double{p.neg_overlap()};
  rule.sample_size = p.sample_size();
  if (p.has_nms_param()) {
    rule.suppression = SuppressionOf(layer, p.nms_param(), "multibox_loss_param.nms_param");
    if (p.nms_param().has_top_k()) rule.suppression_top_k = p.nms_param().top_k();
  }
  rule.suppress_priors = p.use_prior_for_nms();
  return rule;
}

MultiBoxDivisor DivisorOf(const LayerParameter& param, const BoxSizes& sizes) {
  const LossParameter& p = param.loss_param();
  LossParameter::NormalizationMode mode = p.normalization();
  if (!p.has_normalization() && p.has_normalize()) {
    mode = p.normalize() ? LossParameter::VALID : LossParameter::BATCH_SIZE;
  }
  MultiBoxDivisor divisor{.by_matches = mode == LossParameter::VALID};
  if (mode == LossParameter::FULL) {
    divisor.fixed = static_cast<double>(sizes.images * sizes.priors);
  }
  if (mode == LossParameter::BATCH_SIZE) divisor.fixed = static_cast<double>(sizes.images);
  if (mode == LossParameter::PRE_FIXED) divisor.fixed = double{p.pre_fixed_normalizer()};
  return divisor;
}

}  // namespace crema
