// The formula of BNLL; see bnll.cc.
#pragma once

#include <cmath>

#include "core/host_device.h"
#include "layers/activation/formula.h"

namespace crema {

struct BnllFormula {
  static constexpr int64_t kForwardGrain = kCostlyGrain;
  static constexpr int64_t kBackwardGrain = kCostlyGrain;

  explicit BnllFormula(const Layer&) {}
  CREMA_HOST_DEVICE bool reads_output() const { return true; }

  // The exponent is never positive, so that nothing overflows.
  template <typename T>
  CREMA_HOST_DEVICE T Value(T x) const {
    return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
  }
  template <typename T>
  CREMA_HOST_DEVICE T Gradient(T y, T dy) const {
    return dy * -std::expm1(-y);
  }
};

}  // namespace crema
