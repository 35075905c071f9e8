// Rules of losses that are a sum over elements, for the CPU (element_loss.h) and the GPU
// (element_loss.cu). A rule is made from the layer. kGrain is the least number of values that is
// worth a thread of the CPU. If kIgnores, the items have Ignores(i), and `normalizer` replaces the
// batch size.
// Items<T, R> are made from the rule and the inputs, of type T; R is the type of results, float or
// double:
//   count: items; costs() and gradients(): their number for each item;
//   Own(n): index of the score of the label of item n; negative if the label is invalid;
//   Cost(own, i): cost i, of item i / costs();
//   Gradient(own, i, scale): gradient i of input 0, of item i / gradients(). That of input 1 is its
//   negative.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>

#include "core/host_device.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/layer.h"
#include "layers/elements.h"
#include "layers/loss/item_batch.h"
#include "layers/loss/labels.h"
#include "layers/loss/loss_normalizer.h"

namespace crema {

// Base of the items of rules with one cost and one gradient for each value.
struct ValueItems {
  CREMA_HOST_DEVICE static constexpr int64_t costs() { return 1; }
  CREMA_HOST_DEVICE static constexpr int64_t gradients() { return 1; }
  CREMA_HOST_DEVICE static int64_t Own(int64_t) { return 0; }
  int64_t count;
};

// Costs of differences: out_i * cost(in_i * (a_i - b_i)). Inputs 2 and 3, if present, are `in` and
// `out`; otherwise both are 1.
template <typename Difference>
struct PairRule : ItemRule {
  static constexpr size_t kGradients = 2;
  static constexpr int64_t kGrain = 1 << 14;
  static constexpr bool kIgnores = false;
  explicit PairRule(const Layer& layer) : of(layer) {}

  template <typename T, typename R>
  struct Items : ValueItems {
    Items(const PairRule& rule, std::span<const ConstTensorView> inputs)
        : ValueItems{inputs[0].count()},
          of(rule.of),
          a(Elements<T>(inputs[0])),
          b(Elements<T>(inputs[1])),
          inside(inputs.size() > 2 ? Elements<T>(inputs[2]) : nullptr),
          outside(inputs.size() > 3 ? Elements<T>(inputs[3]) : nullptr) {}

    CREMA_HOST_DEVICE static R FactorAt(const T* factors, int64_t i) {
      return factors == nullptr ? R(1) : static_cast<R>(factors[i]);
    }
    CREMA_HOST_DEVICE R DifferenceAt(int64_t i) const {
      return FactorAt(inside, i) * (static_cast<R>(a[i]) - static_cast<R>(b[i]));
    }
    CREMA_HOST_DEVICE R Cost(int64_t, int64_t i) const {
      return FactorAt(outside, i) * of.Cost(DifferenceAt(i));
    }
    CREMA_HOST_DEVICE R Gradient(int64_t, int64_t i, R scale) const {
      return scale * FactorAt(inside, i) * FactorAt(outside, i) * of.Slope(DifferenceAt(i));
    }

    const Difference of;
    const T* a;
    const T* b;
    const T* inside;
    const T* outside;
  };

  const Difference of;
};

// Difference of EuclideanLoss.
struct HalfSquare {
  explicit HalfSquare(const Layer&) {}
  template <typename R>
  CREMA_HOST_DEVICE static R Cost(R difference) {
    return difference * difference / 2;
  }
  template <typename R>
  CREMA_HOST_DEVICE static R Slope(R difference) {
    return difference;
  }
};

// Difference of L1Loss.
struct Magnitude {
  explicit Magnitude(const Layer&) {}
  template <typename R>
  CREMA_HOST_DEVICE static R Cost(R difference) {
    return std::abs(difference);
  }
  template <typename R>
  CREMA_HOST_DEVICE static R Slope(R difference) {
    return static_cast<R>((difference > 0) - (difference < 0));
  }
};

// Difference of SmoothL1Loss.
class Huber {
 public:
  explicit Huber(const Layer& layer) {
    const double sigma = layer.param().smooth_l1_loss_param().sigma();
    if (!(sigma > 0 && std::isfinite(sigma))) {
      FailField(layer, "smooth_l1_loss_param.sigma",
                StrCat("sigma is ", sigma, ", expected more than 0"));
    }
    square_ = sigma * sigma;
  }
  template <typename R>
  CREMA_HOST_DEVICE R Cost(R difference) const {
    const R square = static_cast<R>(square_);
    const R size = std::abs(difference);
    return size < 1 / square ? square * difference * difference / 2 : size - R(0.5) / square;
  }
  // In this form NaN stays NaN.
  template <typename R>
  CREMA_HOST_DEVICE R Slope(R difference) const {
    const R slope = static_cast<R>(square_) * difference;
    return slope < -1 ? R(-1) : slope > 1 ? R(1) : slope;
  }

 private:
  double square_;
};

// SigmoidCrossEntropyLoss.
struct SigmoidRule : ItemRule {
  static constexpr int64_t kGrain = 1 << 12;
  static constexpr bool kIgnores = true;
  explicit SigmoidRule(const Layer& layer)
      : ignored(IgnoredLabel(layer.param().loss_param())),
        normalizer(layer, LossParameter::BATCH_SIZE) {}

  template <typename T, typename R>
  struct Items : ValueItems {
    Items(const SigmoidRule& rule, std::span<const ConstTensorView> inputs)
        : ValueItems{inputs[0].count()},
          x(Elements<T>(inputs[0])),
          targets(Elements<T>(inputs[1])),
          ignores(rule.ignored.has_value()),
          ignored(rule.ignored.value_or(0)) {}

    // As in Caffe, the target is truncated before the comparison.
    CREMA_HOST_DEVICE bool Ignores(int64_t i) const {
      return ignores && std::trunc(static_cast<double>(static_cast<R>(targets[i]))) == ignored;
    }
    CREMA_HOST_DEVICE R Cost(int64_t, int64_t i) const {
      if (Ignores(i)) return 0;
      const R score = static_cast<R>(x[i]), target = static_cast<R>(targets[i]);
      return -(score * (target - (score >= 0 ? 1 : 0)) - std::log1p(std::exp(-std::abs(score))));
    }
    CREMA_HOST_DEVICE R Gradient(int64_t, int64_t i, R scale) const {
      if (Ignores(i)) return 0;
      return scale * (Sigmoid(static_cast<R>(x[i])) - static_cast<R>(targets[i]));
    }
    // Does not overflow.
    CREMA_HOST_DEVICE static R Sigmoid(R score) {
      if (score >= 0) return 1 / (1 + std::exp(-score));
      const R power = std::exp(score);
      return power / (1 + power);
    }

    const T* x;
    const T* targets;
    bool ignores;
    double ignored;
  };

  const std::optional<int32_t> ignored;
  const LossNormalizer normalizer;
};

// Base of rules of scores (input 0) with items on axis 0 and classes after it, and of a label for
// each item (input 1).
struct LabelledRule : ItemRule {
  static constexpr int64_t kGrain = kItemGrain;
  static constexpr bool kIgnores = false;

  static void CheckShapes(const Layer& layer, std::span<const BlobSpec> inputs) {
    const Shape& scores = inputs[0].shape;
    CheckLabelShape(layer, scores, RowSize(layer, scores), inputs[1].shape, true);
  }
  static void CheckValues(const Layer& layer, std::span<const ConstTensorView> inputs) {
    CheckLabels(layer, inputs[1], {.classes = inputs[0].shape().count(1)});
  }

  template <typename T, typename R>
  struct Items {
    explicit Items(std::span<const ConstTensorView> inputs)
        : count(inputs[0].shape()[0]),
          scores(Elements<T>(inputs[0])),
          labels(Elements<T>(inputs[1]), inputs[0].shape().count(1)) {}
    CREMA_HOST_DEVICE int64_t gradients() const { return labels.classes; }
    CREMA_HOST_DEVICE int64_t Own(int64_t n) const {
      const int64_t label = labels(n);
      return label < 0 ? label : n * labels.classes + label;
    }

    int64_t count;
    const T* scores;
    ClassLabels<T, R> labels;
  };
};

// HingeLoss. The sign of a score is 1 for the class of the label and -1 for other classes.
struct HingeRule : LabelledRule {
  explicit HingeRule(const Layer& layer)
      : squared(layer.param().hinge_loss_param().norm() == HingeLossParameter::L2) {}

  template <typename T, typename R>
  struct Items : LabelledRule::Items<T, R> {
    Items(const HingeRule& rule, std::span<const ConstTensorView> inputs)
        : LabelledRule::Items<T, R>(inputs), squared(rule.squared) {}

    CREMA_HOST_DEVICE int64_t costs() const { return this->labels.classes; }
    CREMA_HOST_DEVICE R HingeAt(int64_t i, R sign) const {
      const R hinge = 1 - sign * static_cast<R>(this->scores[i]);
      return hinge < 0 ? 0 : hinge;  // NaN stays NaN
    }
    CREMA_HOST_DEVICE R Cost(int64_t own, int64_t i) const {
      if (own < 0) return NotANumber();
      const R hinge = HingeAt(i, i == own ? 1 : -1);
      return squared ? hinge * hinge : hinge;
    }
    CREMA_HOST_DEVICE R Gradient(int64_t own, int64_t i, R scale) const {
      if (own < 0) return 0;
      const R sign = i == own ? 1 : -1, hinge = HingeAt(i, sign);
      return scale * (-sign * (squared ? 2 * hinge : static_cast<R>(hinge > 0)));
    }

    bool squared;
  };

  const bool squared;
};

// MultinomialLogisticLoss.
struct LogisticRule : LabelledRule {
  explicit LogisticRule(const Layer&) {}

  template <typename T, typename R>
  struct Items : LabelledRule::Items<T, R> {
    Items(const LogisticRule&, std::span<const ConstTensorView> inputs)
        : LabelledRule::Items<T, R>(inputs) {}

    CREMA_HOST_DEVICE static constexpr int64_t costs() { return 1; }
    // NaN stays NaN.
    CREMA_HOST_DEVICE R ClampedAt(int64_t i) const {
      constexpr R kSmallest = 1e-20;  // Caffe's kLOG_THRESHOLD
      const R p = static_cast<R>(this->scores[i]);
      return p < kSmallest ? kSmallest : p;
    }
    CREMA_HOST_DEVICE R Cost(int64_t own, int64_t) const {
      return own < 0 ? NotANumber() : -std::log(ClampedAt(own));
    }
    CREMA_HOST_DEVICE R Gradient(int64_t own, int64_t i, R scale) const {
      return i == own ? -scale / ClampedAt(i) : 0;
    }
  };
};

}  // namespace crema
