// Whether a GPU can be given the passes of a plan as a whole (CUDA graphs).
#pragma once

#include <cstddef>
#include <string>

#include "plan/plan.h"

namespace crema {

// Returns true for a layer that makes data on the host.
bool IsHostSource(const PlannedLayer& layer);

// Returns the layer after the last host source: from there on passes are the same work each time.
// 0 if there is no such source.
size_t FirstLayerBehindSources(const Plan& plan);

// Why passes of this plan are queued layer by layer, "layer ..."; empty where the plan knows of
// nothing. What a layer does as it runs may be another reason (Session::WhyNoGraph).
std::string WhyNoGraphCapture(const Plan& plan);

}  // namespace crema
