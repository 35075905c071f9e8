// Preprocessing of a gradient before the rule proper (UpdateArgs), and the two running means of
// Adam and rules derived from it; on both devices.
#pragma once

#include <cmath>

#include "core/host_device.h"
#include "solvers/update_rule.h"

namespace crema {

// The place of weight decay in a rule: in the gradient, or separate from it.
enum class Decay { kInGradient, kDecoupled };

template <typename T>
CREMA_HOST_DEVICE inline T Sign(T x) {
  return static_cast<T>((x > 0) - (x < 0));
}

// NaN stays NaN.
template <typename T>
CREMA_HOST_DEVICE inline T Clamp(T x, T limit) {
  return x < -limit ? -limit : x > limit ? limit : x;
}

template <typename T>
struct Moments {
  T keep_mean;    // momentum
  T keep_square;  // momentum2

  explicit Moments(const UpdateArgs& args)
      : keep_mean(static_cast<T>(args.momentum)),
        keep_square(static_cast<T>(args.param.momentum2())) {}

  CREMA_HOST_DEVICE void Add(T g, T& mean, T& square) const {
    mean = keep_mean * mean + (1 - keep_mean) * g;
    square = keep_square * square + (1 - keep_square) * (g * g);
  }
};

// The bias of the means, which start from 0: 1 - momentum^t and 1 - momentum2^t.
struct BiasCorrection {
  double first;
  double second;

  explicit BiasCorrection(const UpdateArgs& args) {
    const auto t = static_cast<double>(args.iteration + 1);
    first = 1 - std::pow(args.momentum, t);
    second = 1 - std::pow(double{args.param.momentum2()}, t);
  }
};

}  // namespace crema
