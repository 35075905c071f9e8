// Rows of the kernel lists by cuDNN.
#pragma once

#include "graph/registry.h"

namespace crema {

// In front of the native rows of GPUs, which must be there. Only in builds with cuDNN's headers.
void AddCudnnRows(Registry* registry);

}  // namespace crema
