// Float parameters of layers.
#pragma once

#include <cmath>
#include <string>

#include "core/strings.h"
#include "graph/layer.h"

namespace crema {

// Returns `value`. Throws an error of `field`, the path below the layer, if it is NaN or infinite.
inline float FiniteNumber(const Layer& layer, float value, const std::string& field) {
  if (std::isfinite(value)) return value;
  const std::string name = field.substr(field.rfind('.') + 1);
  FailField(layer, field, StrCat(name, " is ", value, ", expected a finite number"));
}

}  // namespace crema
