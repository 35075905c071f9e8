// Steps of the rules whose rate has a factor for each blob that depends on norms: LARS and LAMB.
// steps.h explains steps and the letters of the formulas; norms are of one blob.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "core/host_device.h"
#include "solvers/rules/gradient.h"
#include "solvers/update_rule.h"

namespace crema {

// LARS (You, Gitman and Ginsburg, arXiv:1708.03888), c = trust_coefficient, D the decay in g.
// momentum unset: 0.9. L2 only. `ratio` is LarsRatio of the blob.
//   h = m h + r c |w| / (|g - D w| + D |w|) g;  w = w - h
template <typename T>
struct LarsStep {
  static constexpr size_t kHistories = 1;
  static constexpr Decay kDecay = Decay::kInGradient;
  T momentum;
  T rate;  // times the ratio of the blob

  LarsStep(const UpdateArgs& args, const BlobUpdate& blob, double ratio)
      : momentum(static_cast<T>(args.momentum)), rate(static_cast<T>(blob.rate * ratio)) {}

  CREMA_HOST_DEVICE T operator()(T w, T g, T& h) const {
    h = momentum * h + rate * g;
    return w - h;
  }
};

// From the sums of squares of the weights and of the gradient, without decay; 1 if a norm is 0.
CREMA_HOST_DEVICE inline double LarsRatio(double weights, double gradient, double decay,
                                          double trust) {
  if (weights == 0 || gradient == 0) return 1;
  const double weight = std::sqrt(weights);
  return trust * weight / (std::sqrt(gradient) + decay * weight);
}

// LAMB (You et al., arXiv:1904.00962), h and v as for Adam. Unset: momentum 0.9, delta 1e-6.
//   u = (h / (1 - m^t)) / (sqrt(v / (1 - b^t)) + d) + D w;  w = w - r |w| / |u| u
// The direction u of one weight, from its two means:
template <typename T>
struct LambDirection {
  T mean_factor;  // 1 over the bias of the mean
  T root_factor;  // 1 over the root of the bias of the square
  T delta;
  T decay;

  LambDirection(const UpdateArgs& args, const BlobUpdate& blob)
      : delta(static_cast<T>(args.param.has_delta() ? double{args.param.delta()} : 1e-6)),
        decay(static_cast<T>(blob.decay)) {
    const BiasCorrection bias(args);
    mean_factor = static_cast<T>(1 / bias.first);
    root_factor = static_cast<T>(1 / std::sqrt(bias.second));
  }

  CREMA_HOST_DEVICE T operator()(T w, T mean, T square) const {
    return mean_factor * mean / (std::sqrt(square) * root_factor + delta) + decay * w;
  }
};

// The second pass, after the means were updated; `ratio` is LambRatio of the blob.
template <typename T>
struct LambStep {
  static constexpr size_t kHistories = 2;
  static constexpr Decay kDecay = Decay::kDecoupled;
  LambDirection<T> direction;
  T rate;  // times the ratio of the blob

  LambStep(const UpdateArgs& args, const BlobUpdate& blob, double ratio)
      : direction(args, blob), rate(static_cast<T>(blob.rate * ratio)) {}

  CREMA_HOST_DEVICE T operator()(T w, T /*g*/, const T& mean, const T& square) const {
    return w - rate * direction(w, mean, square);
  }
};

// From the sums of squares of the weights and of the directions; 1 if a norm is 0.
CREMA_HOST_DEVICE inline double LambRatio(double weights, double directions) {
  return weights == 0 || directions == 0 ? 1 : std::sqrt(weights / directions);
}

// UpdateRule::apply of LARS and of LAMB.
int64_t ApplyLars(const UpdateArgs& args);
int64_t ApplyLamb(const UpdateArgs& args);

}  // namespace crema
