// Unpooling by a mask on the GPU; see mask_unpool.h. A mask element that is no place of the output
// drops its value: kernels cannot throw.
#pragma once

#include <cstddef>

#include "graph/implementation.h"

namespace crema {

// No where the element type of the mask cannot hold all positions.
Support SupportsCudaMaskUnpool(const OpDesc& query);
// Of Forward and of Backward.
size_t CudaMaskUnpoolScratch(const OpDesc& query);

void ForwardCudaMaskUnpool(const ForwardArgs& args);
void BackwardCudaMaskUnpool(const BackwardArgs& args);

}  // namespace crema
