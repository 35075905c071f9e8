// The scale of the bytes of a blob with a calibrated range.
#pragma once

#include <algorithm>

#include "crema.pb.h"
#include "math/int8_copy.h"

namespace crema {

inline Int8Scale ScaleOf(const Int8Range& range) {
  constexpr float kLeast = 1e-30F;  // so that 1 / step is finite
  const float steps = range.non_negative() ? 255.0F : 127.0F;
  return {.step = std::max(range.max() / steps, kLeast), .is_signed = !range.non_negative()};
}

}  // namespace crema
