// Rows of MatMul besides the native one.
#pragma once

#include "graph/registry.h"

namespace crema {

// Row "onednn": its products are of forward passes; a backward pass is the native one.
Kernel OneDnnMatMulKernel();

}  // namespace crema
