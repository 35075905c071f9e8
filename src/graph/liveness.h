// Decides which values share memory, and from when to when each buffer is needed.
#pragma once

#include "graph/plan.h"

namespace crema {

// Fills in_place of the layers, all arena slots, and the arena sizes of the plan. Requires layers,
// values, and the gradient flags to be there. Steps of the timeline: layer i runs forward at step i
// and backward at step 2n-1-i.
void PlaceMemory(Plan* plan);

}  // namespace crema
