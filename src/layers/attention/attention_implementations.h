// Implementations of Attention besides the native one.
#pragma once

#include "graph/implementation.h"

namespace crema {

// Implementation "onednn", forward and backward.
ImplementationPtr OneDnnAttentionImplementation();

}  // namespace crema
