// The formula of Swish; see swish.cc.
#pragma once

#include <cmath>

#include "core/host_device.h"
#include "layers/activation/formula.h"
#include "layers/layer_number.h"
#include "math/fast_exp.h"

namespace crema {

struct SwishFormula {
  static constexpr int64_t kForwardGrain = kCostlyGrain;
  static constexpr int64_t kBackwardGrain = kCostlyGrain;

  explicit SwishFormula(const Layer& layer)
      : beta(FiniteNumber(layer, layer.param().swish_param().beta(), "swish_param.beta")) {}
  CREMA_HOST_DEVICE bool reads_output() const { return false; }

  template <typename T>
  CREMA_HOST_DEVICE T Value(T x) const {
    return x / (T(1) + FastExp(-T(beta) * x));
  }
  template <typename T>
  CREMA_HOST_DEVICE T Gradient(T x, T dy) const {
    const T s = T(1) / (T(1) + FastExp(-T(beta) * x));
    return dy * (s + T(beta) * x * s * (T(1) - s));
  }

  float beta = 1;

 protected:
  SwishFormula() = default;
};

struct SiluFormula : SwishFormula {
  explicit SiluFormula(const Layer&) {}
};

}  // namespace crema
