// The GPU that libraries are asked about.
#pragma once

#include "core/device.h"

namespace crema {

// Makes a GPU the one of this thread, as the runtime of CUDA has it; nothing for the CPU, and where
// there is no such GPU. Queues of a GPU (DeviceQueue) do that by themselves.
void SetCurrentDevice(const Device& device);

}  // namespace crema
