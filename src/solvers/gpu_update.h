// DeviceUpdate by kernels. Built with CUDA, and into tests.
#pragma once

#include <memory>

#include "solvers/device_update.h"

namespace crema {

// For f32 blobs. The context, of a GPU, must outlive it.
std::unique_ptr<DeviceUpdate> MakeGpuUpdate(const ExecContext& context);

}  // namespace crema
