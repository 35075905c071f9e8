// MarginInnerProduct and LargeMarginInnerProduct: their parameters and formulas. See
// margin_inner_product.cc.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/host_device.h"
#include "crema.pb.h"
#include "graph/layer.h"
#include "math/inner_product.h"

namespace crema {

// The score of the label as a multiple of its largest value, and its derivative by the cosine.
struct MarginScore {
  double value;
  double slope;
};

// Factors of the gradient of one score: dx = w * of_weight + x * of_input, and the gradient of w is
// x * of_weight + w * of_self.
struct MarginFactors {
  double of_weight, of_input, of_self;
};

struct MarginRule {
  explicit MarginRule(const Layer& layer);

  // Returns the weight of the plain product in forward pass `step`, from 0.
  CREMA_HOST_DEVICE double Lambda(uint64_t step) const {
    const double passes = first + static_cast<double>(step) + 1;
    return std::max(least, base * std::pow(1 + gamma * passes, -power));
  }

  // Returns (lambda c + psi(c)) / (1 + lambda), where psi(c) = (-1)^k cos(m t) - 2 k for the angle
  // t of cosine c, and k counts the multiples of pi / m below t.
  CREMA_HOST_DEVICE MarginScore Score(double c, double lambda) const {
    const double square = c * c;
    double cosine = c, slope = 1;
    if (factor == 2) {
      cosine = 2 * square - 1;
      slope = 4 * c;
    } else if (factor == 3) {
      cosine = (4 * square - 3) * c;
      slope = 12 * square - 3;
    } else if (factor == 4) {
      cosine = (8 * square - 8) * square + 1;
      slope = (32 * square - 16) * c;
    }
    int k = 0;
    for (int i = 1; i < factor; ++i) k += c < limits[i - 1] ? 1 : 0;
    const double sign = k % 2 == 0 ? 1 : -1;
    return {(lambda * c + sign * cosine - 2 * k) / (1 + lambda),
            (lambda + sign * slope) / (1 + lambda)};
  }

  // Returns the score of a class for features of length `input`, with weights of length `weight`,
  // times the factor of the cosine.
  CREMA_HOST_DEVICE double Length(double input, double weight) const {
    return normalizes ? input : input * weight;
  }

  // Returns the factors for one score, whose gradient is dy.
  CREMA_HOST_DEVICE MarginFactors Factors(double dy, double c, const MarginScore& score,
                                          double input, double weight) const {
    const double rest = dy * (score.value - c * score.slope);
    if (!normalizes) {
      return {dy * score.slope, rest * weight / input, rest * input / weight};
    }
    return {dy * score.slope / weight, rest / input,
            -dy * c * score.slope * input / (weight * weight)};
  }

  bool normalizes;   // weights have length 1
  int factor;        // of the angle
  double limits[3];  // cosines of multiples of pi / factor
  double base, gamma, power, first, least;
};

// Returns the sizes of the product of features and weights.
InnerProductSize MarginSize(const Layer& layer, const Shape& x);

// Lengths are not 0, so that they can be divided by.
CREMA_HOST_DEVICE inline double MarginLength(double square) {
  return std::max(std::sqrt(square), 1e-12);
}

}  // namespace crema
