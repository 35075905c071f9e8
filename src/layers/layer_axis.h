// Axis parameters of layers.
#pragma once

#include <string>
#include <string_view>

#include "core/error.h"
#include "graph/layer.h"

namespace crema {

// Returns shape.CanonicalAxis(axis). Throws an error of `field` if the axis is out of range.
inline int LayerAxis(const Layer& layer, const Shape& shape, int64_t axis, std::string_view field) {
  try {
    return shape.CanonicalAxis(axis);
  } catch (const Error& error) {
    FailField(layer, std::string(field), error.problems().front().message);
  }
}

}  // namespace crema
