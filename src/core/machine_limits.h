// What this machine is and has left.
#pragma once

#include <cstdint>
#include <string>

namespace crema {

// Bytes that programs can still have: of the machine, or of the control group where that is less.
// 0 when it is not known.
int64_t AvailableMemory();
// Bytes of memory of the machine; 0 when it is not known.
int64_t TotalMemory();
// As it calls itself; "unknown processor" when it does not.
std::string ProcessorName();

}  // namespace crema
