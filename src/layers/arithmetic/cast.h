// Conversion of one value by Cast; see cast.cc.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/host_device.h"
#include "crema.pb.h"

namespace crema {

template <typename T>
CREMA_HOST_DEVICE inline T ToHalf(T x) {
  if (!(std::abs(x) < 65520)) {  // from here on the nearest even value would be 65536
    return std::isnan(x) ? x : std::copysign(std::numeric_limits<T>::infinity(), x);
  }
  if (x == 0) return x;
  // Keeps 10 bits after the leading one; below 2^-14 all steps are 2^-24.
  const int exponent = std::max(std::ilogb(x), -14) - 10;
  return std::ldexp(std::nearbyint(std::ldexp(x, -exponent)), exponent);
}

template <typename Int, typename T>
CREMA_HOST_DEVICE inline T ToInteger(T x) {
  if (std::isnan(x)) return T(0);
  constexpr auto kLow = static_cast<double>(std::numeric_limits<Int>::min());
  constexpr auto kHigh = static_cast<double>(std::numeric_limits<Int>::max());
  // Adding 0 converts -0 to 0.
  return static_cast<T>(std::clamp(std::trunc(static_cast<double>(x)), kLow, kHigh) + 0.0);
}

template <typename T>
CREMA_HOST_DEVICE inline T CastTo(Type to, T x) {
  switch (to) {
    case FLOAT:
      return static_cast<T>(static_cast<float>(x));
    case FLOAT16:
      return ToHalf(x);
    case INT:
      return ToInteger<int32_t>(x);
    case UINT:
      return ToInteger<uint32_t>(x);
    case BOOL:
      return x != 0 ? T(1) : T(0);
    default:
      return x;
  }
}

}  // namespace crema
