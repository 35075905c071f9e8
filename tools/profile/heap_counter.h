// Counts heap allocations of this process.
#pragma once

#include <functional>

#include "runtime/profiler.h"

namespace crema::tools {

// Returns a counter of calls of malloc and related functions by any thread and library since the
// start, and of the requested bytes. Empty if they cannot be counted: under sanitizers, and without
// glibc.
std::function<HeapUse()> HeapCounter();

}  // namespace crema::tools
