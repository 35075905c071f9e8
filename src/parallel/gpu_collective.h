// A Collective of GPUs of this machine, by NCCL.
#pragma once

#include <memory>
#include <vector>

#include "parallel/collective.h"

namespace crema {

// Rank r is GPU gpus[r]; its contexts must be of that GPU. Throws kDeviceFailure where a GPU is
// there twice or cannot be connected with the others, NCCL cannot be loaded, or this build has no
// CUDA.
std::unique_ptr<Collective> MakeGpuCollective(const std::vector<int>& gpus);

}  // namespace crema
