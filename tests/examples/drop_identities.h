// The pass of docs/development/add_a_pass.md. A built-in pass is declared in graph/passes/passes.h.
#pragma once

#include <map>
#include <string>

#include "graph/graph.h"

namespace crema {

// Removes Power layers that compute y = x. Keeps layers that are `pinned` (PlanOptions).
void DropIdentities(const std::map<std::string, std::string>& pinned, Graph* graph);

}  // namespace crema
