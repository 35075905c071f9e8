// The formula of GELU; see gelu.cc.
#pragma once

#include <numbers>

#include "core/host_device.h"
#include "layers/activation/formula.h"
#include "math/fast_exp.h"

namespace crema {

// A template, as compilers take no loop with a choice in it many elements at a time.
template <bool kTanh>
struct GeluFormula {
  static constexpr int64_t kForwardGrain = kCostlyGrain;
  static constexpr int64_t kBackwardGrain = kCostlyGrain;
  static constexpr double kInverseRoot2 = 1 / std::numbers::sqrt2;
  static constexpr double kDensityAt0 = std::numbers::inv_sqrtpi / std::numbers::sqrt2;
  static constexpr double kC = std::numbers::inv_sqrtpi * std::numbers::sqrt2;
  static constexpr double kA = 0.044715;

  explicit GeluFormula(const Layer&) {}
  CREMA_HOST_DEVICE bool reads_output() const { return false; }

  // Twice P(x) - 1/2, approximated.
  template <typename T>
  CREMA_HOST_DEVICE static T Tanh(T x) {
    return FastTanh(T(kC) * x * (T(1) + T(kA) * x * x));
  }
  template <typename T>
  CREMA_HOST_DEVICE static T Distribution(T x) {
    return T(0.5) * FastErfc(-x * T(kInverseRoot2));
  }

  template <typename T>
  CREMA_HOST_DEVICE T Value(T x) const {
    return x * (kTanh ? T(0.5) * (T(1) + Tanh(x)) : Distribution(x));
  }
  template <typename T>
  CREMA_HOST_DEVICE T Gradient(T x, T dy) const {
    if constexpr (!kTanh) {
      return dy * (Distribution(x) + x * T(kDensityAt0) * FastExp(T(-0.5) * x * x));
    } else {
      const T t = Tanh(x);
      const T slope = T(kC) * (T(1) + T(3 * kA) * x * x);
      return dy * T(0.5) * (T(1) + t + x * (T(1) - t * t) * slope);
    }
  }
};

}  // namespace crema
