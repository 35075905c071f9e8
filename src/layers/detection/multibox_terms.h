// Loss terms of MultiBoxLoss for one prior, with derivatives.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "math/boxes.h"

namespace crema {

constexpr double kLeastProbability = std::numeric_limits<float>::min();

struct ValueAndSlope {
  double value;
  double slope;
};

CREMA_HOST_DEVICE inline ValueAndSlope DifferenceLoss(double difference, bool smooth_l1) {
  const double size = std::abs(difference);
  if (smooth_l1 && size >= 1) return {size - 0.5, difference < 0 ? -1.0 : 1.0};
  return {difference * difference / 2, difference};
}

// Returns 1 for each coordinate outside the image.
CREMA_HOST_DEVICE inline BoxOffsets OutsideOf(const Box& box) {
  const auto leaves = [](double v) { return v < 0 || v > 1 ? 1.0 : 0.0; };
  return {leaves(box.xmin), leaves(box.ymin), leaves(box.xmax), leaves(box.ymax)};
}

// Returns the loss of four predicted offsets without those marked `outside`. Calls slope(k,
// derivative) for the others.
template <typename Slope>
CREMA_HOST_DEVICE double OffsetsLoss(const BoxOffsets& loc, const BoxOffsets& target,
                                     const BoxOffsets& outside, bool smooth_l1,
                                     const Slope& slope) {
  double sum = 0;
  for (size_t k = 0; k < 4; ++k) {
    if (outside[k] != 0) continue;
    const ValueAndSlope term = DifferenceLoss(loc[k] - target[k], smooth_l1);
    sum += term.value;
    slope(k, term.slope);
  }
  return sum;
}

// Returns the loss of one prior; score(c) is the score of class c. Calls slope(c, derivative) if
// `with_slopes`.
template <typename Score, typename Slope>
CREMA_HOST_DEVICE double SoftmaxClassLoss(int64_t classes, int64_t label, const Score& score,
                                          bool with_slopes, const Slope& slope) {
  double largest = score(0);
  for (int64_t c = 1; c < classes; ++c) largest = largest < score(c) ? score(c) : largest;
  double sum = 0;
  for (int64_t c = 0; c < classes; ++c) sum += std::exp(score(c) - largest);
  for (int64_t c = 0; with_slopes && c < classes; ++c) {
    slope(c, std::exp(score(c) - largest) / sum - (c == label ? 1 : 0));
  }
  const double probability = std::exp(score(label) - largest) / sum;
  return -std::log(probability < kLeastProbability ? kLeastProbability : probability);
}

// The same with an independent binary decision for each class.
template <typename Score, typename Slope>
CREMA_HOST_DEVICE double LogisticClassLoss(int64_t classes, int64_t label, const Score& score,
                                           bool with_slopes, const Slope& slope) {
  double sum = 0;
  for (int64_t c = 0; c < classes; ++c) {
    const double s = score(c);
    const double target = c == label ? 1 : 0;
    sum += (s < 0 ? 0 : s) - s * target + std::log1p(std::exp(-std::abs(s)));
    if (with_slopes) slope(c, 1 / (1 + std::exp(-s)) - target);
  }
  return sum;
}

// Maps NaN to infinity, the worst cost, so that it is selected and not hidden.
CREMA_HOST_DEVICE inline double RankableCost(double cost) {
  return cost == cost ? cost : std::numeric_limits<double>::infinity();
}

}  // namespace crema
