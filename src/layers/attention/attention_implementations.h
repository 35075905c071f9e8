// Implementations of Attention besides the native one.
#pragma once

#include "graph/registry.h"

namespace crema {

// Implementation "onednn", forward and backward.
Implementation OneDnnAttentionImplementation();

}  // namespace crema
