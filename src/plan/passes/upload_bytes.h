// Uploads images to a GPU as bytes.
#pragma once

#include <map>
#include <string>

#include "graph/graph.h"
#include "plan/plan.h"

namespace crema {

// Reasons, by source, why images are uploaded as floats.
using UploadDecisions = std::map<const Layer*, std::string>;

// Makes each source that can (graph/byte_source.h) output bytes, a quarter of the size of floats,
// and inserts a PixelsToFloat node `<blob>_<layer>_floats` after it, which converts them on the
// GPU. The output of that node has the name, the consumers and the loss weight of the original
// blob. For GPU graphs only. Requires the type "PixelsToFloat" in the registry. Infer reports a
// source that cannot read its data.
UploadDecisions UploadBytes(Graph* graph, const Registry& registry);

// Returns true if UploadBytes inserted that layer of the plan.
bool IsOfUploadBytes(const Plan& plan, const PlannedLayer& layer);

}  // namespace crema
