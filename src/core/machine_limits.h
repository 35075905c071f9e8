// What this machine has left.
#pragma once

#include <cstdint>

namespace crema {

// Bytes that programs can still have: of the machine, or of the control group where that is less.
// 0 when it is not known.
int64_t AvailableMemory();

}  // namespace crema
