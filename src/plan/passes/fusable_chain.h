// Which layers an implementation would do the work of too, before there is a plan.
#pragma once

#include <vector>

#include "plan/plan.h"

namespace crema {

// The nodes behind node `n`, one behind the other, that this implementation fuses
// (Implementation::CanFuse) where all their blobs have the format of its output. `query` asks
// about node n and fuses nothing. Never a pinned layer. FuseFollowers decides in the end.
std::vector<size_t> FusableChain(const Implementation& implementation, const OpDesc& query,
                                 const Graph& graph, const std::vector<LayerInfo>& infos, size_t n,
                                 const PlanOptions& options);

}  // namespace crema
