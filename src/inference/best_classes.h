// The classes with the highest scores.
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace crema {

struct Prediction {
  int index = 0;
  double score = 0;
};

// Returns the `most` best classes, best first; ties in index order, NaN last.
std::vector<Prediction> BestFirst(std::span<const float> scores,
                                  size_t most = std::numeric_limits<size_t>::max());

}  // namespace crema
