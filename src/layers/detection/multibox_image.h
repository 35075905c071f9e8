// The rules of MultiBoxLoss, and the loss of one image: which priors stand for which objects, what
// they cost, and the derivatives of that.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "crema.pb.h"
#include "layers/detection/box_inputs.h"
#include "math/box_matching.h"

namespace crema {

struct MultiBoxRule {
  int64_t classes = 0;
  int64_t background = 0;
  int64_t box_classes = 1;  // 1: classes share one box
  bool agnostic = false;    // all objects count as class background + 1
  BoxCode code = BoxCode::kCorner;
  bool smooth_l1 = true;  // else half the square
  bool logistic = false;  // else softmax
  bool want_loc = true;
  bool want_conf = true;
  bool bp_inside = false;

  MatchRule match;
  bool match_priors = true;  // else the predicted boxes

  MultiBoxLossParameter::MiningType mining = MultiBoxLossParameter::MAX_NEGATIVE;
  double negatives_per_match = 3;
  double negative_overlap = 0.5;
  int64_t sample_size = 64;
  std::optional<SuppressionRule> suppression;  // before HARD_EXAMPLE takes its sample
  int64_t suppression_top_k = -1;
  bool suppress_priors = false;  // by their overlap; else that of the predicted boxes
};

// What the layer says. Throws kInvalidArgument for parameters outside their ranges.
MultiBoxRule MakeMultiBoxRule(const Layer& layer);

// What the sums are divided by: at least 1.
struct MultiBoxDivisor {
  bool by_matches = false;
  double fixed = 1;  // else

  CREMA_HOST_DEVICE double Of(int64_t matches) const {
    const double divisor = by_matches ? static_cast<double>(matches) : fixed;
    return divisor > 1 ? divisor : 1;
  }
};
MultiBoxDivisor DivisorOf(const LayerParameter& param, const BoxSizes& extent);

// Sums, not divided by anything.
struct MultiBoxSums {
  double loc = 0;
  double conf = 0;
  int64_t matches = 0;
};

// One image: `loc` P x L x 4, `conf` P x K. The gradients of the sums are written to `loc_grad` and
// `conf_grad`, everywhere, unless these are empty.
MultiBoxSums MultiBoxImage(const MultiBoxRule& rule, const Priors& priors,
                           std::span<const LabelledObject> objects, std::span<const double> loc,
                           std::span<const double> conf, std::span<double> loc_grad,
                           std::span<double> conf_grad);

}  // namespace crema
