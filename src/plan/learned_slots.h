// Which layers own which learned blobs, and who shares them.
#pragma once

#include <vector>

#include "graph/gradient_flow.h"
#include "plan/plan.h"

namespace crema {

// One slot for each learned blob of each node, in order. Blobs whose ParamSpec has the same
// non-empty name share the first one's memory. Throws kInvalidArgument, with all problems: more
// `param` entries than blobs, shapes that differ (STRICT) or counts that differ (PERMISSIVE),
// multipliers that are not finite or contradict each other.
std::vector<LearnedSlot> AssignLearnedSlots(const Graph& graph, const std::vector<LayerInfo>& infos,
                                            const GradientFlow& flow);

}  // namespace crema
