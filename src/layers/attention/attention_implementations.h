// Non-native implementations of Attention.
#pragma once

#include "graph/implementation.h"

namespace crema {

// Returns implementation "onednn", forward and backward.
ImplementationPtr OneDnnAttentionImplementation();

}  // namespace crema
