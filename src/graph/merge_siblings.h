// Layers of the same input that are computed as one.
#pragma once

#include "graph/plan.h"

namespace crema {

// Where layers of one image read the same value, have the same row, and it can do their work at
// once (Kernel::merges), the first of them computes them all, and their outputs lie one behind the
// other in memory. What a Concat takes stays where it can be written into its output, or is not
// merged. Without a backward pass only. Requires absorbed layers (graph/absorb.h); nothing is
// placed.
void MergeSiblings(Plan* plan);

}  // namespace crema
