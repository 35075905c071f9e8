// Implementations that take a blocked input and give a plain output, for layers at the end of the
// part of a net that is blocked.
#pragma once

#include <string>

#include "graph/implementation.h"

namespace crema {

// The work of `implementation`, which takes plain blobs, on a blocked input: it is copied to
// scratch, and its gradient back, except where both formats are the same memory (one pixel, whole
// blocks). For layers of one input.
ImplementationPtr OnBlockedInput(const ImplementationPtr& implementation, std::string name);

// The native methods so: implementation "blocked input".
ImplementationPtr NativeOnBlockedInput();

}  // namespace crema
