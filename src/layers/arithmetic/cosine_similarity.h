// Dot product and squared lengths of a pair of vectors; see cosine_similarity.cc.
#pragma once

#include <cmath>

#include "core/host_device.h"

namespace crema {

struct VectorPair {
  double dot = 0;
  double aa = 0;
  double bb = 0;
  CREMA_HOST_DEVICE double lengths() const { return std::sqrt(aa) * std::sqrt(bb); }
  CREMA_HOST_DEVICE double Divisor(double eps) const {
    const double product = lengths();
    return product <= eps ? eps : product;  // NaN passes through
  }
};

}  // namespace crema
