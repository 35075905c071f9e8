// Order in which ArgMax ranks values.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/host_device.h"

namespace crema {

// Returns true if value x at position a ranks before value y at position b.
template <typename T>
CREMA_HOST_DEVICE inline bool ComesBefore(T x, int64_t a, T y, int64_t b) {
  if (x > y) return true;
  if (x < y) return false;
  if (std::isnan(x) != std::isnan(y)) return std::isnan(y);
  return a > b;
}

}  // namespace crema
