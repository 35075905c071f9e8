// Axis parameters, as most layers have one.
#pragma once

#include <string>
#include <string_view>

#include "core/error.h"
#include "graph/layer.h"

namespace crema {

// shape.CanonicalAxis(axis), reporting an axis that is outside as an error of `field`.
inline int LayerAxis(const Layer& layer, const Shape& shape, int64_t axis, std::string_view field) {
  try {
    return shape.CanonicalAxis(axis);
  } catch (const Error& error) {
    FailField(layer, std::string(field), error.problems().front().message);
  }
}

}  // namespace crema
