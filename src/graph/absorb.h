// Layers whose work the row of the layer before them does too.
#pragma once

#include "graph/plan.h"

namespace crema {

// Wherever a layer's row can (Kernel::absorbs), the layers that alone read its output, one behind
// the other, become views of it. Layers that run again for the backward pass are left alone.
// Requires: nothing is placed.
void AbsorbFollowers(Plan* plan);

}  // namespace crema
