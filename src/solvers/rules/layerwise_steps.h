// Steps of the rules whose rate has a factor for each blob, of norms: LARS and LAMB. See steps.h.
#pragma once

#include <cmath>
#include <cstddef>

#include "core/host_device.h"
#include "solvers/rules/gradient.h"
#include "solvers/rules/moments.h"
#include "solvers/update_rule.h"

namespace crema {

// `ratio` is LarsRatio of the blob.
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

// From the sums of squares of the weights and of the gradient, without decay.
CREMA_HOST_DEVICE inline double LarsRatio(double weights, double gradient, double decay,
                                          double trust) {
  if (weights == 0 || gradient == 0) return 1;
  const double weight = std::sqrt(weights);
  return trust * weight / (std::sqrt(gradient) + decay * weight);
}

// The direction u of one weight, from its two means.
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

// The second pass, where the means have gone on; `ratio` is LambRatio of the blob.
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

// From the sums of squares of the weights and of the directions.
CREMA_HOST_DEVICE inline double LambRatio(double weights, double directions) {
  return weights == 0 || directions == 0 ? 1 : std::sqrt(weights / directions);
}

}  // namespace crema
