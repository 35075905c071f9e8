// Rows of InnerProduct besides the native one.
#pragma once

#include <vector>

#include "graph/registry.h"

namespace crema {

// Row "onednn bf16": forward passes whose weights stay as they are (Session::FixWeights), which it
// keeps rounded; others go as in the native row.
Kernel BFloat16InnerProductKernel();

// Rows "int8" and "int8, int8 input".
std::vector<Kernel> Int8InnerProductKernels();

}  // namespace crema
