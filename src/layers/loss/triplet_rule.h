// TripletLoss of one triplet at two squared distances; R is float or double. See triplet_loss.cc.
#pragma once

#include <cmath>

#include "core/host_device.h"

namespace crema {

template <typename R>
struct TripletRule {
  R margin;
  bool euclidean;

  struct Measured {
    R cost;  // before it is cut at 0
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

  // What a difference is multiplied by to give the slope of D; at distance 0 there is none.
  CREMA_HOST_DEVICE R SlopeFactor(R distance) const {
    if (!euclidean) return 2;
    return distance == 0 ? 0 : 1 / distance;
  }
};

}  // namespace crema
