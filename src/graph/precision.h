// What number formats the layers of a net may compute in.
#pragma once

#include "graph/graph.h"
#include "graph/plan.h"

namespace crema {

// That of the layer, else that of the options.
Precision PrecisionOf(const Layer& layer, const PlanOptions& options);

// Throws kInvalidArgument with every layer, or the net, that asks for one that its device has not.
void CheckPrecisions(const Graph& graph, const NetParameter& net, const PlanOptions& options);

}  // namespace crema
