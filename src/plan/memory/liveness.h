// Decides which values share memory, and from when to when each buffer is needed.
#pragma once

#include <vector>

#include "plan/memory/memory_planner.h"
#include "plan/plan.h"

namespace crema {

// Fills in_place and runs_again of the layers, all arena slots, and the arena sizes of the plan.
// Requires layers with their `recompute`, values, and the gradient flags to be there. The steps are
// those of Timeline (plan/memory/recompute.h).
void PlaceMemory(Plan* plan);

// The buffers that PlaceMemory would place, and when each is needed. Fills what PlaceMemory fills
// but for offsets and sizes of the arena.
std::vector<BufferRequest> FindLifetimes(Plan* plan);

}  // namespace crema
