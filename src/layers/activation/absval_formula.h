// The formula of AbsVal; see absval.cc.
#pragma once

#include <cmath>

#include "core/host_device.h"
#include "layers/activation/formula.h"

namespace crema {

struct AbsValFormula {
  static constexpr int64_t kForwardGrain = kCheapGrain;
  static constexpr int64_t kBackwardGrain = kCheapGrain;

  explicit AbsValFormula(const Layer&) {}
  CREMA_HOST_DEVICE bool reads_output() const { return false; }

  template <typename T>
  CREMA_HOST_DEVICE T Value(T x) const {
    return std::abs(x);
  }
  template <typename T>
  CREMA_HOST_DEVICE T Gradient(T x, T dy) const {
    return dy * static_cast<T>((x > 0) - (x < 0));
  }
};

}  // namespace crema
