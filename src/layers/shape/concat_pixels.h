// Internal to Concat.
#pragma once

#include <vector>

#include "graph/implementation.h"

namespace crema {

// Returns the implementations on blobs that are stored pixel by pixel: "int8" and "channels last
// bf16".
std::vector<ImplementationPtr> PixelConcatImplementations();

}  // namespace crema
