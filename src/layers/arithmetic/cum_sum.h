// CumSum: its lines. See cum_sum.cc.
#pragma once

#include <cstdint>

#include "core/host_device.h"
#include "crema.pb.h"
#include "layers/layer_axis.h"

namespace crema {

// Lines along one axis, from the element at which sums begin. `backward` swaps the direction.
struct CumSumLines {
  CumSumLines(const Layer& layer, const Shape& x, bool backward) {
    const CumSumParameter& sum = layer.param().cum_sum_param();
    axis = LayerAxis(layer, x, sum.axis(), "cum_sum_param.axis");
    size = x[axis];
    inner = x.count(axis + 1);
    count = x.count(0, axis) * inner;
    exclusive = sum.exclusive();
    reverse = sum.reverse() != backward;
  }

  // Returns the place of element i of a line.
  CREMA_HOST_DEVICE int64_t At(int64_t line, int64_t i) const {
    return (line / inner * size + (reverse ? size - 1 - i : i)) * inner + line % inner;
  }

  int axis;
  int64_t size, inner, count;
  bool exclusive, reverse;
};

}  // namespace crema
