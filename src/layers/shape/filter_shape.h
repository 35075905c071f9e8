// Shapes of the outputs of Filter.
#pragma once

#include <algorithm>
#include <array>
#include <span>

#include "core/shape.h"

namespace crema {

// Returns `shape` with `items` on axis 0, as Shape::With does, without allocating.
inline Shape WithItems(const Shape& shape, int64_t items) {
  std::array<int64_t, Shape::kMaxAxes> dims{};
  std::ranges::copy(shape.dims(), dims.begin());
  dims[0] = items;
  return Shape(std::span<const int64_t>(dims.data(), shape.dims().size()));
}

}  // namespace crema
