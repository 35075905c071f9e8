// Extents of what Filter keeps.
#pragma once

#include <algorithm>
#include <array>
#include <span>

#include "core/shape.h"

namespace crema {

// Shape::With on axis 0, without allocating.
inline Shape WithItems(const Shape& shape, int64_t items) {
  std::array<int64_t, Shape::kMaxAxes> dims{};
  std::ranges::copy(shape.dims(), dims.begin());
  dims[0] = items;
  return Shape(std::span<const int64_t>(dims.data(), shape.dims().size()));
}

}  // namespace crema
