// Factors of the layers of group_norm_base.h.
#pragma once

#include <cmath>

#include "core/host_device.h"

namespace crema {

// Divisor of a group.
enum class NormMeasure {
  kVariance,      // sqrt(variance + eps), mean subtracted
  kDeviation,     // sqrt(variance) + eps, mean subtracted
  kMean,          // 1; the mean is subtracted
  kMeanSquare,    // sqrt(mean of x^2 + eps)
  kSumOfSquares,  // sqrt(sum of x^2 + eps)
};

struct NormFactors {
  double inverse;  // normal = (x - center) * inverse
  double spread;   // factor of the gradient through the inverse (group_normalize.h)
};

// Returns the factors of a group of `size` elements. `value` is its variance or its sum of squares.
CREMA_HOST_DEVICE inline NormFactors FactorsOf(NormMeasure measure, double eps, double size,
                                               double value) {
  if (measure == NormMeasure::kMean) return {1, 1};
  if (measure == NormMeasure::kDeviation) {
    // All values are equal: y is 0, and so is its part of the gradient.
    if (value == 0) return {eps == 0 ? 0 : 1 / eps, 0};
    return {1 / (std::sqrt(value) + eps), 1 / std::sqrt(value)};
  }
  if (measure == NormMeasure::kMeanSquare) value /= size;
  // All values are equal, or zero: there is nothing to divide.
  const double inverse = value + eps == 0 ? 0 : 1 / std::sqrt(value + eps);
  return {inverse, inverse};
}

}  // namespace crema
