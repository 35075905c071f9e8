// How many files this process may have open.
#pragma once

#include <cstdint>

namespace crema::tools {

// Raises the limit as far as the system lets everybody, and returns it. Thread safety: one thread.
int64_t RaiseDescriptorLimit();

}  // namespace crema::tools
