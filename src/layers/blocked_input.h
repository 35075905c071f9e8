// Implementations with a blocked input and a plain output, for the layers after the blocked part of
// a net.
#pragma once

#include <string>

#include "graph/implementation.h"

namespace crema {

// Runs `implementation`, which takes plain blobs, on a blocked f32 input N x C x H x W: copies the
// input to scratch, and its gradient back. Copies nothing if both layouts are identical in memory
// (one pixel, whole blocks). For layers with one input.
ImplementationPtr OnBlockedInput(const ImplementationPtr& implementation, std::string name);

}  // namespace crema
