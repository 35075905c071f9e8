// Layers of a class with @crema.layer, which declares the facts that the planner needs.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "graph/layer.h"

namespace crema::python {

// Requires the GIL. Throws what the class throws.
std::unique_ptr<const Layer> MakeDeclaredLayer(const LayerParameter& param, nanobind::handle type);

}  // namespace crema::python
