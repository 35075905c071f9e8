// ContrastiveLoss of one pair at a squared distance; R is float or double. See contrastive_loss.cc.
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

  // f. At d = 0 an unlike pair has no direction to part in.
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
