// Rules of losses of softmax(scores), for the CPU and the GPU.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/host_device.h"

namespace crema {

// Target probabilities of one position in SoftmaxWithLoss: at the label and at each other class.
struct SoftmaxTarget {
  double at_label;
  double elsewhere;
};

inline SoftmaxTarget SmoothedTarget(double smoothing, int64_t classes) {
  if (smoothing == 0 || classes < 2) return {1, 0};
  return {1 - smoothing, smoothing / static_cast<double>(classes - 1)};
}

// FocalLoss of one position; R is float or double. See focal_loss.cc.
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
