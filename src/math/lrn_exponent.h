// Internal to LRN: scale^-beta, without std::pow for the usual exponents.
#pragma once

#include <cmath>

#include "core/host_device.h"

namespace crema {

enum class LrnExponent { kThreeQuarters, kHalf, kOne, kOther };

inline LrnExponent LrnExponentOf(double beta) {
  if (beta == 0.75) return LrnExponent::kThreeQuarters;
  if (beta == 0.5) return LrnExponent::kHalf;
  return beta == 1 ? LrnExponent::kOne : LrnExponent::kOther;
}

template <typename T>
CREMA_HOST_DEVICE inline T LrnPowerOf(LrnExponent kind, double beta, T scale) {
  if (kind == LrnExponent::kOther) return std::pow(scale, static_cast<T>(-beta));
  if (kind == LrnExponent::kOne) return 1 / scale;
  const T root = std::sqrt(scale);
  return 1 / (kind == LrnExponent::kHalf ? root : root * std::sqrt(root));
}

}  // namespace crema
