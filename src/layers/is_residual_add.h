// Residual additions, which preceding implementations can fuse.
#pragma once

#include <algorithm>

#include "crema.pb.h"

namespace crema {

// Returns true if the layer computes y = a + b of two blobs, which then have the same shape.
inline bool IsResidualAdd(const LayerParameter& param) {
  const EltwiseParameter& p = param.eltwise_param();
  return param.type() == "Eltwise" && param.bottom_size() == 2 &&
         p.operation() == EltwiseParameter::SUM &&
         std::ranges::all_of(p.coeff(), [](float c) { return c == 1; });
}

}  // namespace crema
