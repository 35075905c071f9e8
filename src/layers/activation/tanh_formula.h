// The formula of TanH; see tanh.cc.
#pragma once

#include <cmath>

#include "core/host_device.h"
#include "layers/activation/formula.h"
#include "math/fast_exp.h"

namespace crema {

struct TanHFormula {
  static constexpr int64_t kForwardGrain = kCostlyGrain;
  static constexpr int64_t kBackwardGrain = kCheapGrain;

  explicit TanHFormula(const Layer&) {}
  CREMA_HOST_DEVICE bool reads_output() const { return true; }

  template <typename T>
  CREMA_HOST_DEVICE T Value(T x) const {
    return FastTanh(x);
  }
  template <typename T>
  CREMA_HOST_DEVICE T Gradient(T y, T dy) const {
    return dy * (T(1) - y * y);
  }
};

}  // namespace crema
