// Ownership and sharing of parameters.
#pragma once

#include <vector>

#include "graph/gradient_flow.h"
#include "plan/plan.h"

namespace crema {

// Returns one slot for each parameter of each node, in order. Parameters whose ParamSpec has the
// same non-empty name share the memory of the first one. Throws kInvalidArgument, with all
// problems, for more `param` entries than blobs, different shapes (STRICT) or counts (PERMISSIVE),
// and multipliers that are not finite or contradict each other.
std::vector<ParameterSlot> AssignParameterSlots(const Graph& graph,
                                                const std::vector<LayerInfo>& infos,
                                                const GradientFlow& flow);

}  // namespace crema
