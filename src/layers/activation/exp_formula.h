// The formula of Exp; see exp.cc.
#pragma once

#include <cmath>

#include "core/host_device.h"
#include "core/strings.h"
#include "layers/activation/formula.h"
#include "layers/layer_number.h"

namespace crema {

struct ExpFormula {
  static constexpr int64_t kForwardGrain = kCostlyGrain;
  static constexpr int64_t kBackwardGrain = kCheapGrain;

  explicit ExpFormula(const Layer& layer) {
    const ExpParameter& param = layer.param().exp_param();
    const double base = FiniteNumber(layer, param.base(), "exp_param.base");
    const double scale = FiniteNumber(layer, param.scale(), "exp_param.scale");
    const double shift = FiniteNumber(layer, param.shift(), "exp_param.shift");
    if (!(base > 0 || base == -1)) {
      FailField(layer, "exp_param.base",
                StrCat("base is ", base, ", expected more than 0, or -1 for e"));
    }
    const double log_base = base == -1 ? 1 : std::log(base);
    slope = log_base * scale;
    offset = log_base * shift;
  }
  CREMA_HOST_DEVICE bool reads_output() const { return true; }

  template <typename T>
  CREMA_HOST_DEVICE T Value(T x) const {
    return std::exp(T(slope) * x + T(offset));
  }
  template <typename T>
  CREMA_HOST_DEVICE T Gradient(T y, T dy) const {
    return dy * y * T(slope);
  }

  double slope = 1;  // y = exp(slope * x + offset)
  double offset = 0;
};

}  // namespace crema
