// The formula of Power; see power.cc.
#pragma once

#include <cmath>

#include "core/host_device.h"

namespace crema {

template <typename T>
CREMA_HOST_DEVICE inline T RaisedTo(T base, T power) {
  return power == 2 ? base * base : std::pow(base, power);
}

}  // namespace crema
