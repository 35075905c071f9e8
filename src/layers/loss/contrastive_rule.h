// ContrastiveLoss of one pair with a given squared distance; R is float or double. See
// contrastive_loss.cc.
#pragma once

#include <cmath>

#include "core/host_device.h"

namespace crema {

template <typename R>
struct ContrastiveRule {
  R margin;
  bool legacy;

  CREMA_HOST_DEVICE R Cost(R square, bool alike) const {
    if (alike) return square;
    if (legacy) return Positive(margin - square);
    const R gap = Positive(margin - std::sqrt(square));
    return gap * gap;
  }

  // Returns f. An unlike pair at d = 0 has no direction to move, so its f is 0.
  CREMA_HOST_DEVICE R Factor(R square, bool alike) const {
    if (alike) return 1;
    if (legacy) return margin - square > 0 ? -1 : 0;
    const R distance = std::sqrt(square);
    if (distance == 0) return 0;
    return -Positive(margin - distance) / distance;
  }

  // NaN stays NaN.
  CREMA_HOST_DEVICE static R Positive(R value) { return value < 0 ? 0 : value; }
};

}  // namespace crema
