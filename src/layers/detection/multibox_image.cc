#include "layers/detection/multibox_image.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "crema.pb.h"
#include "layers/detection/multibox_terms.h"

namespace crema {
namespace {

class ImageLoss {
 public:
  ImageLoss(const MultiBoxRule& rule, const Priors& priors, std::span<const LabelledObject> objects,
            std::span<const double> loc, std::span<const double> conf)
      : rule_(rule), priors_(priors), objects_(objects), loc_(loc), conf_(conf) {}

  MultiBoxSums Run(std::span<double> loc_grad, std::span<double> conf_grad) {
    std::ranges::fill(loc_grad, 0.0);
    std::ranges::fill(conf_grad, 0.0);
    for (int64_t c = 0; c < rule_.box_classes; ++c) matches_.push_back(Match(c));
    Mine();
    MultiBoxSums sums;
    for (int64_t c = 0; c < rule_.box_classes; ++c) {
      for (size_t p = 0; p < Count(); ++p) {
        if (matches_[static_cast<size_t>(c)].object[p] < 0) continue;
        ++sums.matches;
        if (rule_.want_loc) sums.loc += LocLoss(p, c, loc_grad);
      }
    }
    if (rule_.want_conf) sums.conf = AllConfLosses(conf_grad);
    return sums;
  }

 private:
  size_t Count() const { return priors_.boxes.size(); }

  size_t LocAt(size_t prior, int64_t box_class) const {
    return (prior * static_cast<size_t>(rule_.box_classes) + static_cast<size_t>(box_class)) * 4;
  }

  Box Predicted(size_t p, int64_t box_class) const {
    return Decode(rule_.code, OffsetsAt(loc_.data() + LocAt(p, box_class)), priors_.boxes[p],
                  priors_.variances[p]);
  }

  std::vector<Box> AllPredicted(int64_t box_class) const {
    std::vector<Box> boxes;
    for (size_t p = 0; p < Count(); ++p) boxes.push_back(Predicted(p, box_class));
    return boxes;
  }

  // A class-specific box matches objects of its class only.
  BoxMatches Match(int64_t box_class) const {
    std::vector<Box> boxes;
    std::vector<int64_t> which;
    for (size_t o = 0; o < objects_.size(); ++o) {
      if (rule_.box_classes > 1 && objects_[o].label != box_class) continue;
      boxes.push_back(objects_[o].box);
      which.push_back(static_cast<int64_t>(o));
    }
    BoxMatches matches = rule_.match_priors
                             ? MatchBoxes(priors_.boxes, boxes, rule_.match)
                             : MatchBoxes(AllPredicted(box_class), boxes, rule_.match);
    for (size_t p = 0; p < Count(); ++p) {
      int64_t& object = matches.object[p];
      if (object >= 0) object = which[static_cast<size_t>(object)];
      // No box can be encoded relative to a prior without area.
      if (object >= 0 && !HasArea(priors_.boxes[p])) object = kUnmatched;
    }
    return matches;
  }

  // Fills is_negative_. HARD_EXAMPLE also removes matches outside its sample.
  void Mine() {
    is_negative_.assign(Count(), rule_.mining == MultiBoxLossParameter::NONE);
    if (rule_.mining == MultiBoxLossParameter::MAX_NEGATIVE) MineNegatives();
    if (rule_.mining == MultiBoxLossParameter::HARD_EXAMPLE) MineHardExamples();
  }

  void MineNegatives() {
    const BoxMatches& matches = matches_[0];
    std::vector<double> cost(Count(), -std::numeric_limits<double>::infinity());
    int64_t positives = 0;
    for (size_t p = 0; p < Count(); ++p) {
      positives += matches.object[p] >= 0;
      if (matches.object[p] != kUnmatched || !(matches.overlap[p] < rule_.negative_overlap)) {
        continue;
      }
      cost[p] = RankableCost(ConfLoss(p, rule_.background, {}));
    }
    const double most = static_cast<double>(positives) * rule_.negatives_per_match;
    const auto count = static_cast<int64_t>(std::min(most, static_cast<double>(Count())));
    for (const int64_t p : BestFirst(cost, -std::numeric_limits<double>::infinity(), count)) {
      is_negative_[static_cast<size_t>(p)] = true;
    }
  }

  void MineHardExamples() {
    BoxMatches& matches = matches_[0];
    std::vector<double> cost(Count(), -std::numeric_limits<double>::infinity());
    for (size_t p = 0; p < Count(); ++p) {
      if (matches.object[p] == kIgnoredBox) continue;
      cost[p] = ConfLoss(p, ClassOf(p), {});
      if (matches.object[p] >= 0) cost[p] += LocLoss(p, 0, {});
      cost[p] = RankableCost(cost[p]);
    }
    const double nothing = -std::numeric_limits<double>::infinity();
    std::vector<int64_t> order =
        BestFirst(cost, nothing, rule_.suppression ? rule_.suppression_top_k : rule_.sample_size);
    if (rule_.suppression) {
      order = Suppress(rule_.suppress_priors ? priors_.boxes : AllPredicted(0), order,
                       *rule_.suppression);
      if (static_cast<int64_t>(order.size()) > rule_.sample_size) {
        order.resize(static_cast<size_t>(rule_.sample_size));
      }
    }
    std::vector<bool> taken(Count(), false);
    for (const int64_t p : order) taken[static_cast<size_t>(p)] = true;
    for (size_t p = 0; p < Count(); ++p) {
      is_negative_[p] = taken[p] && matches.object[p] == kUnmatched;
      if (!taken[p] && matches.object[p] >= 0) matches.object[p] = kUnmatched;
    }
  }

  // Returns the target class of prior p: that of its object, or background. With class-specific
  // boxes the last matching class counts, as in the SSD fork.
  int64_t ClassOf(size_t p) const {
    int64_t label = rule_.background;
    for (const BoxMatches& matches : matches_) {
      const int64_t object = matches.object[p];
      if (object < 0) continue;
      label = rule_.agnostic ? rule_.background + 1 : objects_[static_cast<size_t>(object)].label;
    }
    return label;
  }

  double LocLoss(size_t p, int64_t box_class, std::span<double> grad) const {
    const BoxMatches& matches = matches_[static_cast<size_t>(box_class)];
    const Box& object = objects_[static_cast<size_t>(matches.object[p])].box;
    const BoxOffsets target = Encode(rule_.code, object, priors_.boxes[p], priors_.variances[p]);
    const size_t at = LocAt(p, box_class);
    const BoxOffsets outside = rule_.bp_inside ? OutsideOf(Predicted(p, box_class)) : BoxOffsets{};
    return OffsetsLoss(OffsetsAt(loc_.data() + at), target, outside, rule_.smooth_l1,
                       [&](size_t k, double slope) {
                         if (!grad.empty()) grad[at + k] = slope;
                       });
  }

  double AllConfLosses(std::span<double> grad) const {
    double sum = 0;
    for (size_t p = 0; p < Count(); ++p) {
      const int64_t label = ClassOf(p);
      const bool matched =
          std::ranges::any_of(matches_, [&](const BoxMatches& m) { return m.object[p] >= 0; });
      if (matched || is_negative_[p]) sum += ConfLoss(p, label, grad);
    }
    return sum;
  }

  double ConfLoss(size_t p, int64_t label, std::span<double> grad) const {
    const double* const scores = conf_.data() + p * static_cast<size_t>(rule_.classes);
    double* const slopes =
        grad.data() + (grad.empty() ? 0 : p * static_cast<size_t>(rule_.classes));
    const auto score = [=](int64_t c) { return scores[c]; };
    const auto slope = [=](int64_t c, double value) { slopes[c] = value; };
    return rule_.logistic ? LogisticClassLoss(rule_.classes, label, score, !grad.empty(), slope)
                          : SoftmaxClassLoss(rule_.classes, label, score, !grad.empty(), slope);
  }

  const MultiBoxRule& rule_;
  const Priors& priors_;
  const std::span<const LabelledObject> objects_;
  const std::span<const double> loc_;
  const std::span<const double> conf_;
  std::vector<BoxMatches> matches_;  // indexed by box class
  std::vector<bool> is_negative_;
};

}  // namespace

MultiBoxSums MultiBoxImage(const MultiBoxRule& rule, const Priors& priors,
                           std::span<const LabelledObject> objects, std::span<const double> loc,
                           std::span<const double> conf, std::span<double> loc_grad,
                           std::span<double> conf_grad) {
  return ImageLoss(rule, priors, objects, loc, conf).Run(loc_grad, conf_grad);
}

}  // namespace crema
