// cuDNN implementations.
#pragma once

#include "graph/registry.h"

namespace crema {

// Adds the cuDNN implementations before the native GPU ones, which must already be registered. Only
// in builds with cuDNN's headers.
void AddCudnnImplementations(Registry* registry);

}  // namespace crema
