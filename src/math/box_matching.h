// Matches boxes to objects.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "math/boxes.h"

namespace crema {

inline constexpr int64_t kUnmatched = -1;
inline constexpr int64_t kIgnoredBox = -2;

constexpr double kLeastMatchOverlap = 1e-6;
// Priors on a grid often overlap an object equally except for rounding; smaller differences count
// as equal.
constexpr double kEqualOverlaps = 1e-6;

// The pair with the larger rank matches first.
CREMA_HOST_DEVICE inline double MatchRank(double overlap) {
  return std::round(overlap / kEqualOverlaps);
}

struct MatchRule {
  bool per_prediction = true;      // false: one box an object only
  double overlap_threshold = 0.5;  // from which per_prediction matches
  bool ignore_outside = false;     // boxes that reach beyond [0, 1] are ignored
};

struct BoxMatches {
  std::vector<int64_t> object;  // by box: index of its object, kUnmatched or kIgnoredBox
  std::vector<double> overlap;  // by box: the largest with any object
};

// First each object gets a box of its own: repeatedly the pair that overlaps most, among the boxes
// and objects still free, if it overlaps by more than 1e-6; of pairs that are equal up to 1e-6, the
// first box. Then, with per_prediction, every free box gets the object that it overlaps most, if by
// overlap_threshold or more. Boxes and objects without area match nothing.
BoxMatches MatchBoxes(std::span<const Box> boxes, std::span<const Box> objects,
                      const MatchRule& rule);

}  // namespace crema
