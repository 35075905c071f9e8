// Layers of a GPU session that run on the CPU because they have no GPU code.
#pragma once

#include "graph/implementation.h"

namespace crema {

// Returns an implementation that runs the native methods on host copies of all inputs, waits for
// these copies, and copies the outputs back. For f32. Used only by plans with
// PlanOptions::allow_cpu_layers.
const Implementation& HostImplementation();

}  // namespace crema
