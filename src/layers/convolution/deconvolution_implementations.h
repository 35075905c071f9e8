// Internal: the implementations of Deconvolution.
#pragma once

#include <vector>

#include "graph/registry.h"

namespace crema {

// On blocked blobs; only there when the build has oneDNN.
std::vector<Implementation> OneDnnDeconvolutionImplementations();

}  // namespace crema
