// What this process asks the heap for.
#pragma once

#include <functional>

#include "runtime/profiler.h"

namespace crema::tools {

// Calls of malloc and its kin by any thread and any library of this process since it began, and the
// bytes that they asked for. Empty where they cannot be counted: under sanitizers, and without
// glibc.
std::function<HeapUse()> HeapCounter();

}  // namespace crema::tools
