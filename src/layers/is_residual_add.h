// Sums that implementations in front of them can take along.
#pragma once

#include <algorithm>

#include "crema.pb.h"

namespace crema {

// Whether the layer is y = a + b of two blobs, which have one shape then.
inline bool IsResidualAdd(const LayerParameter& param) {
  const EltwiseParameter& p = param.eltwise_param();
  return param.type() == "Eltwise" && param.bottom_size() == 2 &&
         p.operation() == EltwiseParameter::SUM &&
         std::ranges::all_of(p.coeff(), [](float c) { return c == 1; });
}

}  // namespace crema
