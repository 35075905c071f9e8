// Layers that an implementation could fuse, before a plan exists.
#pragma once

#include <vector>

#include "graph/gradient_flow.h"
#include "plan/plan.h"

namespace crema {

// Returns the chain of nodes after node `n` that this implementation fuses
// (Implementation::CanFuse) if all their blobs have the format of its output. `query` describes
// node n without fused layers. Pinned layers are never included. FuseFollowers makes the final
// decision.
std::vector<size_t> FusableChain(const Implementation& implementation, const OpDesc& query,
                                 const Graph& graph, const std::vector<LayerInfo>& infos,
                                 const GradientFlow& flow, size_t n, const PlanOptions& options);

}  // namespace crema
