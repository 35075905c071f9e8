// Collective operations between GPUs of this machine, by NCCL.
#pragma once

#include <memory>
#include <vector>

#include "parallel/collective.h"

namespace crema {

// Rank r uses GPU gpus[r]; its contexts must be of that GPU. Throws kDeviceFailure if a GPU is
// listed twice or cannot be connected with the others, NCCL cannot be loaded, or this build has no
// CUDA.
std::unique_ptr<Collective> MakeGpuCollective(const std::vector<int>& gpus);

}  // namespace crema
