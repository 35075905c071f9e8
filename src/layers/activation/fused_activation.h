// Activations that implementations of other layers fuse.
#pragma once

#include "graph/layer.h"
#include "math/fused_activation.h"

namespace crema {

// Returns the activation that this layer computes; kNone if it is another layer, a ReLU (ReluOf),
// or has parameters that the kinds of FusedActivation lack.
FusedActivation ActivationOf(const Layer& layer);

}  // namespace crema
