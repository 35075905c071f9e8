// Rules of PairLoss (pair_loss.h): cost and slope of a difference; R is float or double.
#pragma once

#include <algorithm>
#include <cmath>

#include "core/host_device.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/layer.h"

namespace crema {

// EuclideanLoss.
struct HalfSquare {
  explicit HalfSquare(const Layer&) {}
  template <typename R>
  CREMA_HOST_DEVICE static R Cost(R difference) {
    return difference * difference / 2;
  }
  template <typename R>
  CREMA_HOST_DEVICE static R Slope(R difference) {
    return difference;
  }
};

// L1Loss.
struct Magnitude {
  explicit Magnitude(const Layer&) {}
  template <typename R>
  CREMA_HOST_DEVICE static R Cost(R difference) {
    return std::abs(difference);
  }
  template <typename R>
  CREMA_HOST_DEVICE static R Slope(R difference) {
    return static_cast<R>((difference > 0) - (difference < 0));
  }
};

// SmoothL1Loss.
class Huber {
 public:
  explicit Huber(const Layer& layer) {
    const double sigma = layer.param().smooth_l1_loss_param().sigma();
    if (!(sigma > 0 && std::isfinite(sigma))) {
      FailField(layer, "smooth_l1_loss_param.sigma",
                StrCat("sigma is ", sigma, ", expected more than 0"));
    }
    square_ = sigma * sigma;
  }
  template <typename R>
  CREMA_HOST_DEVICE R Cost(R difference) const {
    const R square = static_cast<R>(square_);
    const R size = std::abs(difference);
    return size < 1 / square ? square * difference * difference / 2 : size - R(0.5) / square;
  }
  // In this form NaN stays NaN.
  template <typename R>
  CREMA_HOST_DEVICE R Slope(R difference) const {
    const R slope = static_cast<R>(square_) * difference;
    return slope < -1 ? R(-1) : slope > 1 ? R(1) : slope;
  }

 private:
  double square_;
};

}  // namespace crema
