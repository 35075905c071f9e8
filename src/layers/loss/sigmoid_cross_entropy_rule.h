// SigmoidCrossEntropyLoss of one value; R is float or double. See sigmoid_cross_entropy_loss.cc.
#pragma once

#include <cmath>

#include "core/host_device.h"

namespace crema {

template <typename R>
CREMA_HOST_DEVICE inline R SigmoidLogLikelihood(R x, R target) {
  return x * (target - (x >= 0 ? 1 : 0)) - std::log1p(std::exp(-std::abs(x)));
}

// Sigmoid without overflow.
template <typename R>
CREMA_HOST_DEVICE inline R StableSigmoid(R x) {
  if (x >= 0) return 1 / (1 + std::exp(-x));
  const R power = std::exp(x);
  return power / (1 + power);
}

}  // namespace crema
