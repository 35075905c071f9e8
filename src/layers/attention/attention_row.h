// Rows of Attention besides the native one.
#pragma once

#include "graph/registry.h"

namespace crema {

// Row "onednn", forward and backward.
Kernel OneDnnAttentionKernel();

}  // namespace crema
