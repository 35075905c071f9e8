// Chooses layers to recompute in the backward pass so that a training net fits into a given arena.
#pragma once

#include <cstdint>

#include "format/source_map.h"
#include "plan/plan.h"

namespace crema {

// Sets `recompute` of layers until the arena of the plan takes at most `mebibytes`; 0 means no
// bound. Cheap layers come first (layers without products: activations, pooling, normalisation),
// ordered by cost per byte freed at the fullest step, then the others. The order does not depend on
// the budget: a smaller budget recomputes the same layers and more. Does not change plans that have
// no backward pass or are not optimised. Throws kInvalidArgument with the smallest arena found if
// it exceeds the budget; other sets of layers may need less.
void FitMemoryBudget(uint64_t mebibytes, const SourceMap& source, Plan* plan);

}  // namespace crema
