// weights diff.
#pragma once

#include <string>

#include "common/weights_file.h"

namespace crema::tools {

struct WeightsTolerance {
  double absolute = 0;
  double relative = 0;  // of the larger of both numbers
};

struct WeightsDifference {
  std::string text;  // a line for each blob that differs, and the count
  bool differ = false;
};

// Compares layers by name. Numbers differ if they are further apart than both tolerances allow
// together; a NaN equals only a NaN.
WeightsDifference CompareWeights(const StoredWeights& a, const StoredWeights& b,
                                 const WeightsTolerance& tolerance);

}  // namespace crema::tools
