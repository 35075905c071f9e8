// Which layers a row would do the work of too, before there is a plan.
#pragma once

#include <vector>

#include "graph/plan.h"

namespace crema {

// The nodes behind node `n`, one behind the other, that this row absorbs (Kernel::absorbs) where
// all their blobs have the format of its output. `query` asks about node n and absorbs nothing.
// Never a pinned layer. AbsorbFollowers decides in the end.
std::vector<size_t> FollowersDoneBy(const Kernel& row, const KernelQuery& query, const Graph& graph,
                                    const std::vector<LayerInfo>& infos, size_t n,
                                    const PlanOptions& options);

}  // namespace crema
