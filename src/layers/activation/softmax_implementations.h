// Implementations of Softmax besides the native one.
#pragma once

#include "graph/implementation.h"
#include "math/softmax.h"

namespace crema {

// Returns the outer, class and inner sizes of a Softmax layer for an input that Infer accepted.
SoftmaxSize SoftmaxSizeOf(const Layer& softmax, const Shape& input);

// Returns implementation "onednn", in builds with oneDNN: forward for f32 inputs with several rows
// of contiguous classes.
ImplementationPtr OneDnnSoftmaxImplementation();

}  // namespace crema
