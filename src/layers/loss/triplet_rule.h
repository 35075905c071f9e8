// TripletLoss of one triplet with given squared distances; R is float or double. See
// triplet_loss.cc.
#pragma once

#include <cmath>

#include "core/host_device.h"

namespace crema {

template <typename R>
struct TripletRule {
  R margin;
  bool euclidean;

  struct Measured {
    R cost;  // before clamping at 0
    R to_positive;
    R to_negative;
  };

  CREMA_HOST_DEVICE Measured Measure(R near, R far) const {
    if (euclidean) {
      near = std::sqrt(near);
      far = std::sqrt(far);
    }
    return {near - far + margin, near, far};
  }

  // Factor that turns a difference into the slope of D; 0 at distance 0.
  CREMA_HOST_DEVICE R SlopeFactor(R distance) const {
    if (!euclidean) return 2;
    return distance == 0 ? 0 : 1 / distance;
  }
};

}  // namespace crema
