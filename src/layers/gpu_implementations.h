// Registration of all GPU implementations.
#pragma once

#include "graph/registry.h"

namespace crema {

// Adds them to the built-in layers, which must already be registered. BuiltinRegistry calls this in
// builds with CUDA; in other builds tests call it, for the GPU emulation (math/cuda/emulation.h).
void AddGpuImplementations(Registry* registry);

}  // namespace crema
