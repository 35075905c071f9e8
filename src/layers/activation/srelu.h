// SReLU, for both devices. See srelu.cc.
#pragma once

#include "core/host_device.h"

namespace crema {

// The four learned values of a channel. T is float or double.
template <typename T>
struct SRelu {
  T tr, ar, tl, al;

  CREMA_HOST_DEVICE T Value(T x) const {
    return x >= tr ? tr + ar * (x - tr) : x > tl ? x : tl + al * (x - tl);
  }
  // The derivative of the value by x.
  CREMA_HOST_DEVICE T Slope(T x) const { return x >= tr ? ar : x > tl ? T(1) : al; }
  // That by tr (0), ar (1), tl (2) or al (3).
  CREMA_HOST_DEVICE T Derivative(int parameter, T x) const {
    const bool right = x >= tr;
    if (right != (parameter < 2) || (!right && x > tl)) return T(0);
    const T slope = right ? ar : al;
    return parameter % 2 == 0 ? T(1) - slope : x - (right ? tr : tl);
  }
};

}  // namespace crema
