// OneHot: the class of an index. See one_hot.cc.
#pragma once

#include <cstdint>

#include "core/host_device.h"
#include "graph/layer.h"

namespace crema {

// Returns the class 0..depth-1 of an index, whose fraction is cut off; negative ones count from the
// end. Returns -1 for other numbers and NaN.
CREMA_HOST_DEVICE inline int64_t OneHotClass(double index, int64_t depth) {
  const auto size = static_cast<double>(depth);
  if (!(index > -size - 1 && index < size)) return -1;
  const auto whole = static_cast<int64_t>(index);
  return whole < 0 ? whole + depth : whole;
}

// Returns the number of elements after each of the new axis of the output y.
int64_t OneHotInner(const Layer& layer, const Shape& y);

}  // namespace crema
