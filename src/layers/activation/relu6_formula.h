// The formula of ReLU6; see relu6.cc.
#pragma once

#include <algorithm>

#include "core/host_device.h"
#include "layers/activation/formula.h"
#include "layers/layer_number.h"

namespace crema {

struct Relu6Formula {
  static constexpr int64_t kForwardGrain = kCheapGrain;
  static constexpr int64_t kBackwardGrain = kCheapGrain;

  explicit Relu6Formula(const Layer& layer)
      : slope(FiniteNumber(layer, layer.param().relu6_param().negative_slope(),
                           "relu6_param.negative_slope")) {}
  CREMA_HOST_DEVICE bool reads_output() const { return slope >= 0; }

  template <typename T>
  CREMA_HOST_DEVICE T Value(T x) const {
    return x > 0 ? std::min(x, T(6)) : T(slope) * x;
  }
  template <typename T>
  CREMA_HOST_DEVICE T Gradient(T x_or_y, T dy) const {
    if (x_or_y >= 6) return T(0);
    return x_or_y > 0 ? dy : T(slope) * dy;
  }

  float slope;
};

}  // namespace crema
