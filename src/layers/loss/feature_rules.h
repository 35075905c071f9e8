// Rules of losses of distances between features, for the CPU (feature_loss.h) and the GPU
// (feature_loss.cu). A rule is made from the layer. Axis 0 of the inputs is the batch; all values
// after it are the feature. loss = sum of costs / (kCostDivisor * batch size).
// Items<T, R> are made from the rule and the inputs, of type T; R is the type of results, float or
// double:
//   count: items; values: values of a feature;
//   Cost(workers, n), WriteGradients(workers, n, scale, to): called by all threads of item n, which
//   are a Team or OneThread.
#pragma once

#include <cmath>
#include <span>
#include <string>

#include "core/host_device.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/layer.h"
#include "layers/elements.h"
#include "layers/loss/item_batch.h"
#include "layers/loss/labels.h"
#include "math/cuda/team.h"

namespace crema {

// Gradients of the features; null: not needed.
template <typename T>
struct FeatureGradients {
  explicit FeatureGradients(std::span<const TensorView> grads) {
    for (size_t i = 0; i < grads.size(); ++i) of[i] = Elements<T>(grads[i]);
  }
  template <typename R>
  CREMA_HOST_DEVICE void Write(int input, int64_t i, R gradient) const {
    if (of[input] != nullptr) of[input][i] = static_cast<T>(gradient);
  }
  T* of[3] = {};
};

template <typename R, typename T, typename Workers>
CREMA_HOST_DEVICE R SquaredDistance(const Workers& workers, const T* a, const T* b, int64_t count) {
  return workers.Sum(count, [&](int64_t i) {
    const R difference = static_cast<R>(a[i]) - static_cast<R>(b[i]);
    return difference * difference;
  });
}

inline void CheckMargin(const Layer& layer, const std::string& field, double margin) {
  if (margin >= 0 && std::isfinite(margin)) return;
  FailField(layer, field, StrCat("margin is ", margin, ", expected 0 or more"));
}

// ContrastiveLoss.
struct ContrastiveRule : ItemRule {
  static constexpr size_t kGradients = 2;
  static constexpr int kCostDivisor = 2;

  explicit ContrastiveRule(const Layer& layer)
      : margin(layer.param().contrastive_loss_param().margin()),
        legacy(layer.param().contrastive_loss_param().legacy_version()) {
    CheckMargin(layer, "contrastive_loss_param.margin", margin);
  }
  static void CheckShapes(const Layer& layer, std::span<const BlobSpec> inputs) {
    CheckEqualItems(layer, inputs.first(2));
    const int64_t pairs = inputs[0].shape[0];
    const Shape& labels = inputs[2].shape;
    if (labels.count() == pairs && labels.axes() > 0) return;
    FailInputs(layer, StrCat("the third bottom holds a label for each of the ", pairs,
                             " pairs, but its shape is ", ToString(labels)));
  }
  static void CheckValues(const Layer& layer, std::span<const ConstTensorView> inputs) {
    CheckWholeNumbers(layer, inputs[2], 2);
  }

  template <typename T, typename R>
  struct Items {
    Items(const ContrastiveRule& rule, std::span<const ConstTensorView> inputs)
        : count(inputs[0].shape()[0]),
          values(inputs[0].shape().count(1)),
          margin(static_cast<R>(rule.margin)),
          legacy(rule.legacy),
          a(Elements<T>(inputs[0])),
          b(Elements<T>(inputs[1])),
          labels(Elements<T>(inputs[2])) {}

    // Returns true if CheckWholeNumbers accepts the label of pair n; see kWrongLabel.
    CREMA_HOST_DEVICE bool Valid(int64_t n) const {
      const R label = static_cast<R>(labels[n]);
      return label == std::trunc(label) && std::isfinite(label);
    }
    CREMA_HOST_DEVICE bool Alike(int64_t n) const { return static_cast<R>(labels[n]) != 0; }
    template <typename Workers>
    CREMA_HOST_DEVICE R Square(const Workers& workers, int64_t n) const {
      return SquaredDistance<R>(workers, a + n * values, b + n * values, values);
    }
    // NaN stays NaN.
    CREMA_HOST_DEVICE static R Positive(R value) { return value < 0 ? 0 : value; }

    template <typename Workers>
    CREMA_HOST_DEVICE R Cost(const Workers& workers, int64_t n) const {
      const R square = Square(workers, n);
      if (!Valid(n)) return NotANumber();
      if (Alike(n)) return square;
      if (legacy) return Positive(margin - square);
      const R gap = Positive(margin - std::sqrt(square));
      return gap * gap;
    }

    // Returns f. An unlike pair at d = 0 has no direction to move, so its f is 0.
    CREMA_HOST_DEVICE R Factor(R square, bool alike) const {
      if (alike) return 1;
      if (legacy) return margin - square > 0 ? -1 : 0;
      const R distance = std::sqrt(square);
      if (distance == 0) return 0;
      return -Positive(margin - distance) / distance;
    }
    template <typename Workers>
    CREMA_HOST_DEVICE void WriteGradients(const Workers& workers, int64_t n, R scale,
                                          const FeatureGradients<T>& to) const {
      const R factor = (Valid(n) ? scale : 0) * Factor(Square(workers, n), Alike(n));
      workers.For(values, [&](int64_t k) {
        const int64_t i = n * values + k;
        const R gradient = factor * (static_cast<R>(a[i]) - static_cast<R>(b[i]));
        to.Write(0, i, gradient);
        to.Write(1, i, -gradient);
      });
    }

    int64_t count, values;
    R margin;
    bool legacy;
    const T* a;
    const T* b;
    const T* labels;
  };

  const float margin;
  const bool legacy;
};

// TripletLoss.
struct TripletRule : ItemRule {
  static constexpr size_t kGradients = 3;
  static constexpr int kCostDivisor = 1;

  explicit TripletRule(const Layer& layer)
      : margin(layer.param().triplet_loss_param().margin()),
        euclidean(layer.param().triplet_loss_param().euclidean()) {
    CheckMargin(layer, "triplet_loss_param.margin", margin);
  }

  template <typename T, typename R>
  struct Items {
    Items(const TripletRule& rule, std::span<const ConstTensorView> inputs)
        : count(inputs[0].shape()[0]),
          values(inputs[0].shape().count(1)),
          margin(static_cast<R>(rule.margin)),
          euclidean(rule.euclidean),
          anchor(Elements<T>(inputs[0])),
          positive(Elements<T>(inputs[1])),
          negative(Elements<T>(inputs[2])) {}

    struct Measured {
      R cost;  // before clamping at 0
      R to_positive;
      R to_negative;
    };
    template <typename Workers>
    CREMA_HOST_DEVICE Measured Measure(const Workers& workers, int64_t n) const {
      const int64_t at = n * values;
      R near = SquaredDistance<R>(workers, anchor + at, positive + at, values);
      R far = SquaredDistance<R>(workers, anchor + at, negative + at, values);
      if (euclidean) {
        near = std::sqrt(near);
        far = std::sqrt(far);
      }
      return {near - far + margin, near, far};
    }
    template <typename Workers>
    CREMA_HOST_DEVICE R Cost(const Workers& workers, int64_t n) const {
      const R cost = Measure(workers, n).cost;
      return cost < 0 ? 0 : cost;  // NaN stays NaN
    }

    // Returns the factor that turns a difference into the slope of D; 0 at distance 0.
    CREMA_HOST_DEVICE R SlopeFactor(R distance) const {
      if (!euclidean) return 2;
      return distance == 0 ? 0 : 1 / distance;
    }
    template <typename Workers>
    CREMA_HOST_DEVICE void WriteGradients(const Workers& workers, int64_t n, R scale,
                                          const FeatureGradients<T>& to) const {
      const Measured measured = Measure(workers, n);
      const bool active = !(measured.cost <= 0);  // true for NaN too, so that NaN propagates
      const R pull = active ? scale * SlopeFactor(measured.to_positive) : 0;
      const R push = active ? scale * SlopeFactor(measured.to_negative) : 0;
      workers.For(values, [&](int64_t k) {
        const int64_t i = n * values + k;
        const R from = static_cast<R>(anchor[i]);
        const R u = pull * (from - static_cast<R>(positive[i]));
        const R v = push * (from - static_cast<R>(negative[i]));
        to.Write(0, i, u - v);
        to.Write(1, i, -u);
        to.Write(2, i, v);
      });
    }

    int64_t count, values;
    R margin;
    bool euclidean;
    const T* anchor;
    const T* positive;
    const T* negative;
  };

  const float margin;
  const bool euclidean;
};

}  // namespace crema
