// Unpooling by a mask on the GPU; see mask_unpool.h. A mask element that is no position of the
// output drops its value, because kernels cannot throw.
#pragma once

#include <cstddef>

#include "graph/implementation.h"

namespace crema {

// Returns No if the element type of the mask cannot hold all positions.
Support SupportsCudaMaskUnpool(const OpDesc& query);
// Scratch of both the forward and the backward pass.
size_t CudaMaskUnpoolScratch(const OpDesc& query);

void ForwardCudaMaskUnpool(const ForwardArgs& args);
void BackwardCudaMaskUnpool(const BackwardArgs& args);

}  // namespace crema
