// Activations that implementations of other layers fuse.
#pragma once

#include "graph/layer.h"
#include "math/fused_activation.h"

namespace crema {

// Returns the activation that this layer computes; kNone if it is another layer, a ReLU (ReluOf),
// or has parameters that the kinds of FusedActivation lack. SiLU, Swish and Sigmoid are not among
// them: oneDNN takes as long for them as a pass of their own (docs/performance.md).
FusedActivation ActivationOf(const Layer& layer);

}  // namespace crema
