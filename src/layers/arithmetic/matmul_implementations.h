// Implementations of MatMul besides the native one.
#pragma once

#include "graph/implementation.h"

namespace crema {

// Returns implementation "onednn": forward by oneDNN; backward is native.
ImplementationPtr OneDnnMatMulImplementation();

}  // namespace crema
