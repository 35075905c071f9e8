// Implementations by cuDNN.
#pragma once

#include "graph/registry.h"

namespace crema {

// In front of the native implementations of GPUs, which must be there. Only in builds with cuDNN's
// headers.
void AddCudnnImplementations(Registry* registry);

}  // namespace crema
