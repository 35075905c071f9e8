// Sums of numbers given by their logarithms.
#pragma once

#include <cmath>
#include <limits>

#include "core/host_device.h"

namespace crema {

// ln(exp a + exp b); minus infinity is ln 0.
CREMA_HOST_DEVICE inline double LogSum(double a, double b) {
  const double most = a < b ? b : a, least = a < b ? a : b;
  if (most == -std::numeric_limits<double>::infinity()) return most;
  return most + std::log1p(std::exp(least - most));
}

}  // namespace crema
