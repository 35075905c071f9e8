// Target probabilities of one position in SoftmaxWithLoss: at the label and at each other class.
#pragma once

#include <cstdint>

namespace crema {

struct SoftmaxTarget {
  double at_label;
  double elsewhere;
};

inline SoftmaxTarget SmoothedTarget(double smoothing, int64_t classes) {
  if (smoothing == 0 || classes < 2) return {1, 0};
  return {1 - smoothing, smoothing / static_cast<double>(classes - 1)};
}

}  // namespace crema
