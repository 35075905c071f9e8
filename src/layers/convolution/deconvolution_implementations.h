// Internal: the implementations of Deconvolution.
#pragma once

#include <vector>

#include "graph/implementation.h"

namespace crema {

// On blocked blobs; only there when the build has oneDNN.
std::vector<ImplementationPtr> OneDnnDeconvolutionImplementations();

}  // namespace crema
