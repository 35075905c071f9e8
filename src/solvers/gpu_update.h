// DeviceUpdate by kernels. Built with CUDA only, and into tests.
#pragma once

#include <memory>

#include "solvers/device_update.h"

namespace crema {

// For blobs of f32. The context, of a GPU, must outlive it.
std::unique_ptr<DeviceUpdate> MakeGpuUpdate(const ExecContext& context);

}  // namespace crema
