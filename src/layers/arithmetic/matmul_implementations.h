// Implementations of MatMul besides the native one.
#pragma once

#include "graph/registry.h"

namespace crema {

// Implementation "onednn": its products are of forward passes; a backward pass is the native one.
Implementation OneDnnMatMulImplementation();

}  // namespace crema
