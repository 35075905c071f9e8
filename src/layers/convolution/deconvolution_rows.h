// Internal: the rows of Deconvolution's kernel list.
#pragma once

#include <vector>

#include "graph/registry.h"

namespace crema {

// On blocked blobs; only there when the build has oneDNN.
std::vector<Kernel> OneDnnDeconvolutionKernels();

}  // namespace crema
