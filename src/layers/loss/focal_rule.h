// FocalLoss of one position; R is float or double. See focal_loss.cc.
#pragma once

#include <cmath>

#include "core/host_device.h"

namespace crema {

template <typename R>
CREMA_HOST_DEVICE inline R FocalCost(R alpha, R gamma, R q) {
  return -alpha * std::pow(1 - q, gamma) * std::log(q);
}

// Returns g. ln q / (1 - q) tends to -1 as q tends to 1.
template <typename R>
CREMA_HOST_DEVICE inline R FocalPull(R alpha, R gamma, R q) {
  const R ratio = q < 1 ? std::log(q) / (1 - q) : -1;
  return -alpha * std::pow(1 - q, gamma) * (1 - gamma * q * ratio);
}

}  // namespace crema
