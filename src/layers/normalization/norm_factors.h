// What the layers of group_norm_base.h divide a group by.
#pragma once

#include <cmath>

#include "core/host_device.h"

namespace crema {

// What a group is divided by.
enum class NormMeasure {
  kVariance,      // sqrt(variance + eps), mean subtracted
  kDeviation,     // sqrt(variance) + eps, mean subtracted
  kMean,          // nothing; the mean is subtracted
  kMeanSquare,    // sqrt(mean of x^2 + eps)
  kSumOfSquares,  // sqrt(sum of x^2 + eps)
};

struct NormFactors {
  double inverse;  // normal = (x - center) * inverse
  double spread;   // of the way back through the inverse (group_normalize.h)
};

// `value` is the variance, or the sum of squares, of a group of `size` elements.
CREMA_HOST_DEVICE inline NormFactors FactorsOf(NormMeasure measure, double eps, double size,
                                               double value) {
  if (measure == NormMeasure::kMean) return {1, 1};
  if (measure == NormMeasure::kDeviation) {
    // A plane of equal values: y is 0, and so is its part of the gradient.
    if (value == 0) return {eps == 0 ? 0 : 1 / eps, 0};
    return {1 / (std::sqrt(value) + eps), 1 / std::sqrt(value)};
  }
  if (measure == NormMeasure::kMeanSquare) value /= size;
  // Nothing to divide: all values are equal, or zero.
  const double inverse = value + eps == 0 ? 0 : 1 / std::sqrt(value + eps);
  return {inverse, inverse};
}

}  // namespace crema
