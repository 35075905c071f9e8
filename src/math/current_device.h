// The current GPU of the calling thread.
#pragma once

#include "core/device.h"

namespace crema {

// Makes a GPU the current CUDA device of this thread; does nothing for the CPU or a GPU that does
// not exist. The queues of a GPU (DeviceQueue) do it themselves.
void SetCurrentDevice(const Device& device);

}  // namespace crema
