// Images that go up to a GPU as bytes.
#pragma once

#include <map>
#include <string>

#include "graph/graph.h"
#include "plan/plan.h"

namespace crema {

// By source whose images go up as numbers: why.
using UploadDecisions = std::map<const Layer*, std::string>;

// For graphs of a GPU. Each source that can (graph/byte_source.h) gives bytes, a quarter of what
// numbers are, and a node `<blob>_<layer>_floats` behind it, a PixelsToFloat, makes the blob of
// them there: with the name, the readers and the loss weight that it had. Requires the type
// "PixelsToFloat" in the registry. A source that cannot read its data stays for Infer to tell.
UploadDecisions UploadBytes(Graph* graph, const Registry& registry);

// Whether UploadBytes has put in that layer of the plan.
bool IsOfUploadBytes(const Plan& plan, const PlannedLayer& layer);

}  // namespace crema
