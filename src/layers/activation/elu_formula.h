// The formula of ELU; see elu.cc.
#pragma once

#include <cmath>

#include "core/host_device.h"
#include "layers/activation/formula.h"
#include "layers/layer_number.h"

namespace crema {

struct EluFormula {
  static constexpr int64_t kForwardGrain = kCostlyGrain;
  static constexpr int64_t kBackwardGrain = kCheapGrain;

  explicit EluFormula(const Layer& layer)
      : alpha(FiniteNumber(layer, layer.param().elu_param().alpha(), "elu_param.alpha")),
        lambda(FiniteNumber(layer, layer.param().elu_param().lambda(), "elu_param.lambda")) {}
  CREMA_HOST_DEVICE bool reads_output() const { return alpha >= 0 && lambda > 0; }

  template <typename T>
  CREMA_HOST_DEVICE T Value(T x) const {
    return T(lambda) * (x > 0 ? x : T(alpha) * std::expm1(x));
  }
  template <typename T>
  CREMA_HOST_DEVICE T Gradient(T x_or_y, T dy) const {
    if (x_or_y > 0) return dy * T(lambda);
    if (reads_output()) return dy * (x_or_y + T(lambda) * T(alpha));
    return dy * (T(lambda) * T(alpha) * std::exp(x_or_y));
  }

  float alpha;
  float lambda;
};

}  // namespace crema
