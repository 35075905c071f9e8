// The GPUs of this machine, as far as this build can use them.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "math/cuda/cuda_info.h"
#include "runtime/compute_device.h"

namespace crema {

// Why no GPU can be used: this build has no CUDA, there is no driver, ...; empty when one can.
std::string WhyNoGpu();
// Whether plans for GPUs can be made, also where there is none.
bool BuiltWithCuda();
// Those that can be used, numbered from 0.
int GpuCount();

// Throws kDeviceFailure, with the reason, where there is no GPU of that number. `limit`: bytes that
// contexts of it allocate at most together; 0: what is free. `graphs`: whether sessions may queue
// passes as CUDA graphs.
ComputeDevice OpenGpu(int ordinal, int64_t limit = 0, bool graphs = true);
GpuInfo InfoOfGpu(int ordinal);
GpuRates MeasureGpuRates(int ordinal);

// Name and version of what code for GPUs is made of; "not found" where a library is not there.
std::vector<std::pair<std::string, std::string>> GpuLibraries();

}  // namespace crema
