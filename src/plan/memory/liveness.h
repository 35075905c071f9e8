// Decides which values share memory, and the lifetime of each buffer.
#pragma once

#include <vector>

#include "plan/memory/memory_planner.h"
#include "plan/plan.h"

namespace crema {

// Sets in_place and runs_again of the layers, all arena slots, and the arena sizes of the plan.
// Requires layers with `recompute`, values, and gradient flags. Steps are those of Timeline
// (plan/memory/recompute.h).
void PlaceMemory(Plan* plan);

// Returns the buffers that PlaceMemory would place, with their lifetimes. Sets the same fields as
// PlaceMemory except offsets and sizes of the arena.
std::vector<BufferRequest> FindLifetimes(Plan* plan);

}  // namespace crema
