// HingeLoss of one score with sign 1 for the class of the label and -1 for other classes; R is
// float or double. See hinge_loss.cc.
#pragma once

#include "core/host_device.h"

namespace crema {

struct HingeRule {
  bool squared;

  template <typename R>
  CREMA_HOST_DEVICE static R Hinge(R x, R sign) {
    const R hinge = 1 - sign * x;
    return hinge < 0 ? 0 : hinge;  // NaN stays NaN
  }
  template <typename R>
  CREMA_HOST_DEVICE R Cost(R x, R sign) const {
    const R hinge = Hinge(x, sign);
    return squared ? hinge * hinge : hinge;
  }
  template <typename R>
  CREMA_HOST_DEVICE R Slope(R x, R sign) const {
    const R hinge = Hinge(x, sign);
    return -sign * (squared ? 2 * hinge : static_cast<R>(hinge > 0));
  }
};

}  // namespace crema
