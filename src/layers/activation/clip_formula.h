// The formula of Clip; see clip.cc.
#pragma once

#include <algorithm>
#include <cmath>

#include "core/host_device.h"
#include "core/strings.h"
#include "layers/activation/formula.h"

namespace crema {

struct ClipFormula {
  static constexpr int64_t kForwardGrain = kCheapGrain;
  static constexpr int64_t kBackwardGrain = kCheapGrain;

  explicit ClipFormula(const Layer& layer) {
    const ClipParameter& param = layer.param().clip_param();
    if (!param.has_min()) FailField(layer, "clip_param.min", "min is missing; it has no default");
    if (!param.has_max()) FailField(layer, "clip_param.max", "max is missing; it has no default");
    low = param.min();
    high = param.max();
    if (!(low <= high)) {  // also when one is NaN
      FailField(layer, "clip_param.max",
                StrCat("max is ", high, " and min is ", low, "; expected min <= max"));
    }
  }
  CREMA_HOST_DEVICE bool reads_output() const { return false; }

  // NaN stays NaN: no comparison with it holds.
  template <typename T>
  CREMA_HOST_DEVICE T Value(T x) const {
    return std::min(std::max(x, T(low)), T(high));
  }
  template <typename T>
  CREMA_HOST_DEVICE T Gradient(T x, T dy) const {
    return x >= T(low) && x <= T(high) ? dy : T(0);
  }

  float low = 0;
  float high = 0;
};

}  // namespace crema
