// The formula of HardSwish; see hard_swish.cc.
#pragma once

#include <algorithm>

#include "core/host_device.h"
#include "layers/activation/formula.h"
#include "layers/layer_number.h"

namespace crema {

struct HardSwishFormula {
  static constexpr int64_t kForwardGrain = kCheapGrain;
  static constexpr int64_t kBackwardGrain = kCheapGrain;

  explicit HardSwishFormula(const Layer& layer)
      : alpha(FiniteNumber(layer, layer.param().hard_sigmoid_param().alpha(),
                           "hard_sigmoid_param.alpha")),
        beta(FiniteNumber(layer, layer.param().hard_sigmoid_param().beta(),
                          "hard_sigmoid_param.beta")) {}
  CREMA_HOST_DEVICE bool reads_output() const { return false; }

  template <typename T>
  CREMA_HOST_DEVICE T Value(T x) const {
    return x * std::min(std::max(T(alpha) * x + T(beta), T(0)), T(1));
  }
  template <typename T>
  CREMA_HOST_DEVICE T Gradient(T x, T dy) const {
    const T u = std::min(std::max(T(alpha) * x + T(beta), T(0)), T(1));
    return dy * (u > 0 && u < 1 ? T(alpha) * x + u : u);
  }

  float alpha;
  float beta;
};

}  // namespace crema
