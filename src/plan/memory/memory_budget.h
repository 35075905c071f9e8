// Chooses layers to run again in the backward pass so that a training net fits into a given arena.
#pragma once

#include <cstdint>

#include "format/source_map.h"
#include "plan/plan.h"

namespace crema {

// Sets `recompute` of layers until the arena of the plan takes at most `mebibytes`; 0: no bound.
// Cheap layers come first (those without products: activations, pooling, normalisation), by cost
// for each byte that it frees at the fullest step, then the others. In which order layers are
// chosen does not depend on the budget: a smaller one has the same layers run again, and more.
// Plans that have no backward pass or are not optimised stay as they are. Throws kInvalidArgument,
// with the smallest arena on that way, where the budget is below it; other sets may be smaller.
void FitMemoryBudget(uint64_t mebibytes, const SourceMap& source, Plan* plan);

}  // namespace crema
