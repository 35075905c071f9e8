// Elements of any type as doubles, on both devices.
#pragma once

#include "core/host_device.h"

namespace crema {

// Half types convert to float only.
template <typename T>
CREMA_HOST_DEVICE inline double AsDouble(T value) {
  return static_cast<double>(static_cast<float>(value));
}
CREMA_HOST_DEVICE inline double AsDouble(double value) { return value; }

}  // namespace crema
