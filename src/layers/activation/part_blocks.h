// Implementation "blocked" of element-wise layers, for channels that do not fill whole blocks, so
// that such a blob stays blocked up to the layer that fuses the activation.
#pragma once

#include <vector>

#include "graph/implementation.h"

namespace crema {

// Returns the implementations for f32 and bfloat16 blobs. Requires f(0) = 0, so that the zeros
// after the last channel stay zeros.
std::vector<ImplementationPtr> PartBlockImplementations();

}  // namespace crema
