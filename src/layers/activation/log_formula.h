// The formula of Log; see log.cc.
#pragma once

#include <cmath>

#include "core/host_device.h"
#include "core/strings.h"
#include "layers/activation/formula.h"
#include "layers/layer_number.h"

namespace crema {

struct LogFormula {
  static constexpr int64_t kForwardGrain = kCostlyGrain;
  static constexpr int64_t kBackwardGrain = kCheapGrain;

  explicit LogFormula(const Layer& layer)
      : scale(FiniteNumber(layer, layer.param().log_param().scale(), "log_param.scale")),
        shift(FiniteNumber(layer, layer.param().log_param().shift(), "log_param.shift")) {
    const double base = FiniteNumber(layer, layer.param().log_param().base(), "log_param.base");
    if (!(base > 0 || base == -1) || base == 1) {
      FailField(layer, "log_param.base",
                StrCat("base is ", base, ", expected more than 0 and not 1, or -1 for e"));
    }
    factor = base == -1 ? 1 : 1 / std::log(base);
  }
  CREMA_HOST_DEVICE bool reads_output() const { return false; }

  template <typename T>
  CREMA_HOST_DEVICE T Value(T x) const {
    return T(factor) * std::log(T(shift) + T(scale) * x);
  }
  template <typename T>
  CREMA_HOST_DEVICE T Gradient(T x, T dy) const {
    return dy * (T(factor) * T(scale)) / (T(shift) + T(scale) * x);
  }

  float scale;
  float shift;
  double factor = 1;  // 1 / log(base)
};

}  // namespace crema
