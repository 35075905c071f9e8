// Internal to the implementations of Deconvolution.
#pragma once

#include <vector>

#include "graph/implementation.h"

namespace crema {

// Returns the implementations on blocked blobs. Only in builds with oneDNN.
std::vector<ImplementationPtr> OneDnnDeconvolutionImplementations();

}  // namespace crema
