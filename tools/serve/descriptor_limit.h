// Limit of open files of this process.
#pragma once

#include <cstdint>

namespace crema::tools {

// Raises the limit to the maximum allowed without privileges, and returns it. Thread safety: one
// thread.
int64_t RaiseDescriptorLimit();

}  // namespace crema::tools
