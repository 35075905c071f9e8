// Implementations of MatMul besides the native one.
#pragma once

#include "graph/implementation.h"

namespace crema {

// Implementation "onednn": its products are of forward passes; a backward pass is the native one.
ImplementationPtr OneDnnMatMulImplementation();

}  // namespace crema
