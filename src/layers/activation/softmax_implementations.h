// Implementations of Softmax besides the native one.
#pragma once

#include "graph/implementation.h"
#include "math/softmax.h"

namespace crema {

// What a Softmax layer goes along in an input that Infer accepted.
SoftmaxSize SoftmaxSizeOf(const Layer& softmax, const Shape& input);

// Implementation "onednn", where the build has it: forward, for some rows whose classes lie side by
// side.
ImplementationPtr OneDnnSoftmaxImplementation();

}  // namespace crema
