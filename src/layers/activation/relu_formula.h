// The formula of ReLU; see relu.cc.
#pragma once

#include "core/host_device.h"
#include "layers/activation/formula.h"
#include "layers/layer_number.h"

namespace crema {

struct ReluFormula {
  static constexpr int64_t kForwardGrain = kCheapGrain;
  static constexpr int64_t kBackwardGrain = kCheapGrain;

  explicit ReluFormula(const Layer& layer)
      : slope(FiniteNumber(layer, layer.param().relu_param().negative_slope(),
                           "relu_param.negative_slope")) {}
  CREMA_HOST_DEVICE bool reads_output() const { return slope >= 0; }

  template <typename T>
  CREMA_HOST_DEVICE T Value(T x) const {
    return x > 0 ? x : T(slope) * x;
  }
  template <typename T>
  CREMA_HOST_DEVICE T Gradient(T sign, T dy) const {
    return sign > 0 ? dy : T(slope) * dy;
  }

  float slope;
};

}  // namespace crema
