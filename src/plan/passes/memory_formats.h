// Which memory format each value has.
#pragma once

#include "graph/graph.h"
#include "plan/measure_implementations.h"
#include "plan/plan.h"

namespace crema {

// Chooses the format of every value so that the estimated time of the implementations that take it
// and of the reorders between them is small, sets Value::format, and puts Reorder nodes where
// formats meet. Inputs and outputs of the net stay plain. The search starts from a few assignments
// and changes one node at a time: it finds no optimum, but never anything that is slower by the
// estimate than a plain net. Does nothing where no implementation wants another format. Where
// implementations were measured (`times`, of this graph), these times count instead of estimates,
// as far as that makes a net of other formats faster by more than measuring errs.
void ChooseMemoryFormats(Graph* graph, const Registry& registry, const ImplementationTimes& times,
                         const PlanOptions& options);

// Implementations fit where the formats of the values do. One pixel is the same in both
// formats, but sessions may turn to others (Session::Reshape).
bool FitsFormats(const Implementation& implementation, const LayerInfo& info,
                 std::span<const BlobSpec> inputs, std::span<const BlobSpec> outputs);

}  // namespace crema
