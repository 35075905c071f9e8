// Parameters of MultiBoxLoss, and the loss of one image: matching of priors and objects, costs, and
// gradients.
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
  int64_t box_classes = 1;  // 1 means that classes share one box
  bool agnostic = false;    // all objects count as class background + 1
  BoxCode code = BoxCode::kCorner;
  bool smooth_l1 = true;  // if false, half the square
  bool logistic = false;  // if false, softmax
  bool want_loc = true;
  bool want_conf = true;
  bool bp_inside = false;

  MatchRule match;
  bool match_priors = true;  // if false, predicted boxes are matched

  MultiBoxLossParameter::MiningType mining = MultiBoxLossParameter::MAX_NEGATIVE;
  double negatives_per_match = 3;
  double negative_overlap = 0.5;
  int64_t sample_size = 64;
  std::optional<SuppressionRule> suppression;  // applied before HARD_EXAMPLE takes its sample
  int64_t suppression_top_k = -1;
  bool suppress_priors = false;  // by overlap of priors; if false, of predicted boxes
};

// Returns the parameters of the layer. Throws kInvalidArgument for values out of range.
MultiBoxRule MakeMultiBoxRule(const Layer& layer);

// Divisor of the sums, at least 1.
struct MultiBoxDivisor {
  bool by_matches = false;
  double fixed = 1;  // used if by_matches is false

  CREMA_HOST_DEVICE double Of(int64_t matches) const {
    const double divisor = by_matches ? static_cast<double>(matches) : fixed;
    return divisor > 1 ? divisor : 1;
  }
};
MultiBoxDivisor DivisorOf(const LayerParameter& param, const BoxSizes& sizes);

// Sums without normalization.
struct MultiBoxSums {
  double loc = 0;
  double conf = 0;
  int64_t matches = 0;
};

// Returns the sums of one image: `loc` is P x L x 4, `conf` is P x K. Writes the gradients of the
// sums to all of `loc_grad` and `conf_grad`, unless these are empty.
MultiBoxSums MultiBoxImage(const MultiBoxRule& rule, const Priors& priors,
                           std::span<const LabelledObject> objects, std::span<const double> loc,
                           std::span<const double> conf, std::span<double> loc_grad,
                           std::span<double> conf_grad);

}  // namespace crema
