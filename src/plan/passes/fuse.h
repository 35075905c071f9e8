// Layers whose work the implementation of the layer before them does too.
#pragma once

#include "plan/plan.h"

namespace crema {

// Wherever a layer's implementation can (Implementation::CanFuse), the layers that alone read its
// output, one behind the other, become views of it. Layers that run again for the backward pass are
// left alone. Where one of them adds an input, its gradient may lie where that of the output does:
// an implementation reads an element of that before it writes there, and not again. Requires:
// nothing is placed.
void FuseFollowers(Plan* plan);

}  // namespace crema
