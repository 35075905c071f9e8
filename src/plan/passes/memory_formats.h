// Chooses the memory format of each value.
#pragma once

#include "graph/graph.h"
#include "plan/measure_implementations.h"
#include "plan/plan.h"

namespace crema {

// Chooses formats with a small estimated time of implementations plus reorders, sets Value::format,
// and inserts Reorder nodes between different formats. Inputs and outputs of the net stay plain.
// The search starts from a few assignments and changes one node at a time: the result is not always
// optimal, but never slower than a plain net by the estimate. Does nothing if no implementation
// uses another format. Measured times (`times`, of this graph) replace estimates if they make a net
// of other formats faster by more than the measurement error.
void ChooseMemoryFormats(Graph* graph, const Registry& registry, const ImplementationTimes& times,
                         const PlanOptions& options);

// Returns true if the formats of the values suit the implementation. One pixel has the same memory
// order in both formats, but sessions may change the shape (Session::Reshape).
bool FitsFormats(const Implementation& implementation, const LayerInfo& info,
                 std::span<const BlobSpec> inputs, std::span<const BlobSpec> outputs);

}  // namespace crema
