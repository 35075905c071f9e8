// The formula of HardSigmoid; see hard_sigmoid.cc.
#pragma once

#include <algorithm>

#include "core/host_device.h"
#include "layers/activation/formula.h"
#include "layers/layer_number.h"

namespace crema {

struct HardSigmoidFormula {
  static constexpr int64_t kForwardGrain = kCheapGrain;
  static constexpr int64_t kBackwardGrain = kCheapGrain;

  explicit HardSigmoidFormula(const Layer& layer)
      : alpha(FiniteNumber(layer, layer.param().hard_sigmoid_param().alpha(),
                           "hard_sigmoid_param.alpha")),
        beta(FiniteNumber(layer, layer.param().hard_sigmoid_param().beta(),
                          "hard_sigmoid_param.beta")) {}
  CREMA_HOST_DEVICE bool reads_output() const { return true; }

  template <typename T>
  CREMA_HOST_DEVICE T Value(T x) const {
    return std::min(std::max(T(alpha) * x + T(beta), T(0)), T(1));
  }
  template <typename T>
  CREMA_HOST_DEVICE T Gradient(T y, T dy) const {
    return y > 0 && y < 1 ? T(alpha) * dy : T(0);
  }

  float alpha;
  float beta;
};

}  // namespace crema
