// What this machine has left.
#pragma once

#include <cstdint>
#include <string>

namespace crema {

// Bytes that programs can still have: of the machine, or of the control group where that is less.
// 0 when it is not known.
int64_t AvailableMemory();

// Bytes free for this user where a file of this path would lie; -1 when it is not known.
int64_t FreeDiskBytes(const std::string& path);

}  // namespace crema
