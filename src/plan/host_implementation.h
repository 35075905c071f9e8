// Layers of a session on a GPU that the CPU computes, as they have no code for the GPU.
#pragma once

#include "graph/implementation.h"

namespace crema {

// The native methods on copies of all that they read, which they wait for; what they write is
// copied back. For f32. Chosen by plans with PlanOptions::allow_cpu_layers only.
const Implementation& HostImplementation();

}  // namespace crema
