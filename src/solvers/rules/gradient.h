// Preprocessing of a gradient before the rule proper (UpdateArgs), on both devices.
#pragma once

#include "core/host_device.h"

namespace crema {

// The place of weight decay in a rule: in the gradient, or separate from it.
enum class Decay { kInGradient, kDecoupled };

template <typename T>
CREMA_HOST_DEVICE inline T Sign(T x) {
  return static_cast<T>((x > 0) - (x < 0));
}

// NaN stays NaN.
template <typename T>
CREMA_HOST_DEVICE inline T Clamp(T x, T limit) {
  return x < -limit ? -limit : x > limit ? limit : x;
}

}  // namespace crema
