// Non-maximum suppression of boxes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "math/boxes.h"

namespace crema {

struct SuppressionRule {
  double threshold = 0.3;  // a box is dropped if it overlaps a better one by more
  double eta = 1;          // below 1: factor on the threshold after each kept box while it is > 0.5
  BoxUnits units = BoxUnits::kContinuous;
  int64_t most = -1;  // kept boxes; -1: all
};

// Returns the indices 0..scores.size()-1 of the scores above `least`, best first, equal ones in
// their order; at most `most` of them (-1: all). A NaN score is left out.
std::vector<int64_t> BestFirst(std::span<const double> scores, double least, int64_t most);

// Returns those of `candidates` (indices of `boxes`, best first) that are kept.
std::vector<int64_t> Suppress(std::span<const Box> boxes, std::span<const int64_t> candidates,
                              const SuppressionRule& rule);

}  // namespace crema
