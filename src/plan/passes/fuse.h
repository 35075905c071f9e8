// Fuses layers into the implementation of the layer before them.
#pragma once

#include "plan/plan.h"

namespace crema {

// Fuses chains of sole consumers into a layer whose implementation allows it
// (Implementation::CanFuse): they become views of its output. Does not change layers that run again
// for the backward pass. If a fused layer adds an input, the gradient of that input may share
// memory with the gradient of the output: an implementation reads each element before it writes
// there, and not again. Requires: no buffer is placed.
void FuseFollowers(Plan* plan);

}  // namespace crema
