// The broadcast of small tensors along a large one; see math/broadcast.h.
#pragma once

#include <cstdint>

namespace crema {

// A large tensor as (outer, middle, inner); small tensors have `middle` elements.
struct BroadcastShape {
  int64_t outer = 1;
  int64_t middle = 1;
  int64_t inner = 1;
  int64_t count() const { return outer * middle * inner; }
};

}  // namespace crema
