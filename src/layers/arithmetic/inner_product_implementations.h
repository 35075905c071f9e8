// Implementations of InnerProduct besides the native one.
#pragma once

#include <vector>

#include "graph/implementation.h"

namespace crema {

// Implementation "onednn bf16": forward passes whose weights stay as they are
// (Session::FixWeights), which it keeps rounded; others go as in the native implementation.
ImplementationPtr BFloat16InnerProductImplementation();

// Implementations "int8" and "int8, int8 input".
std::vector<ImplementationPtr> Int8InnerProductImplementations();

}  // namespace crema
