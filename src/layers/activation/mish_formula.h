// The formula of Mish; see mish.cc.
#pragma once

#include <algorithm>
#include <cmath>

#include "core/host_device.h"
#include "layers/activation/formula.h"

namespace crema {

struct MishFormula {
  static constexpr int64_t kForwardGrain = kCostlyGrain;
  static constexpr int64_t kBackwardGrain = kCostlyGrain;

  explicit MishFormula(const Layer&) {}
  CREMA_HOST_DEVICE bool reads_output() const { return false; }

  // From 20 on t is 1 in either precision, and the squares of larger powers would overflow.
  template <typename T>
  CREMA_HOST_DEVICE static T BoundedExp(T x) {
    return std::exp(std::min(x, T(20)));
  }

  template <typename T>
  CREMA_HOST_DEVICE T Value(T x) const {
    const T e = BoundedExp(x);
    const T n = e * (e + T(2));
    return x * (n / (n + T(2)));
  }
  template <typename T>
  CREMA_HOST_DEVICE T Gradient(T x, T dy) const {
    const T e = BoundedExp(x);
    const T n = e * (e + T(2));
    const T d = n + T(2);
    return dy * (n / d + x * (T(4) * ((n + T(1)) / d) / d) * (e / (T(1) + e)));
  }
};

}  // namespace crema
