// Keeping the best of overlapping boxes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "math/boxes.h"

namespace crema {

struct SuppressionRule {
  double threshold = 0.3;  // a box goes if it overlaps a better one by more
  double eta = 1;          // below 1: factor on the threshold after each kept box while it is > 0.5
  BoxUnits units = BoxUnits::kContinuous;
  int64_t most = -1;  // kept boxes; -1: all
};

// Indices 0..scores.size()-1 of the scores above `least`, best first, equal ones in their order; at
// most `most` of them (-1: all). NaN is above nothing.
std::vector<int64_t> BestFirst(std::span<const double> scores, double least, int64_t most);

// Goes through `candidates` (indices of `boxes`, best first) and returns those that are kept.
std::vector<int64_t> Suppress(std::span<const Box> boxes, std::span<const int64_t> candidates,
                              const SuppressionRule& rule);

}  // namespace crema
