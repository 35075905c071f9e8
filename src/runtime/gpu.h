// The GPUs of this machine that this build can use.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "math/cuda/cuda_info.h"
#include "runtime/compute_device.h"

namespace crema {

// Returns why no GPU can be used: this build has no CUDA, there is no driver, ...; empty if one
// can.
std::string WhyNoGpu();
// Returns true if plans for GPUs can be made, also without a GPU.
bool BuiltWithCuda();
// Returns the number of usable GPUs, numbered from 0.
int GpuCount();

// Throws kDeviceFailure, with the reason, if there is no such GPU. `limit`: bytes that its contexts
// may allocate together; 0: all free ones. `graphs`: sessions may queue passes as CUDA graphs.
ComputeDevice OpenGpu(int ordinal, int64_t limit = 0, bool graphs = true);
GpuInfo InfoOfGpu(int ordinal);
GpuRates MeasureGpuRates(int ordinal);

// Returns names and versions of the GPU libraries; "not found" for a missing one.
std::vector<std::pair<std::string, std::string>> GpuLibraries();

}  // namespace crema
