// Implementations that run on GPUs.
#pragma once

#include "graph/registry.h"

namespace crema {

// Requires the built-in layers. BuiltinRegistry has called this where CUDA was built; elsewhere
// tests do, for a stand-in of a GPU (math/cuda/emulation.h).
void AddGpuImplementations(Registry* registry);

}  // namespace crema
