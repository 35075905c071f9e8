// Fuses layers into the implementation of the layer before them.
#pragma once

#include "plan/plan.h"

namespace crema {

// Fuses chains of sole consumers into a layer whose implementation allows it
// (Implementation::CanFuse): they become views of its output. The layer runs again for the backward
// pass only if all of them would; one that saves tensors fuses none that run again. If a fused
// layer adds an input, the gradient of that input may share memory with the gradient of the output:
// an implementation reads each element before it writes there, and not again. Requires: no buffer
// is placed.
void FuseFollowers(Plan* plan);

}  // namespace crema
