// Tests if the passes of a plan can run as CUDA graphs.
#pragma once

#include <cstddef>
#include <string>

#include "plan/plan.h"

namespace crema {

// Returns true for a layer that produces data on the host.
bool IsHostSource(const PlannedLayer& layer);

// Returns the index of the layer after the last host source, or 0 without one. Passes do the same
// work each time from this layer on.
size_t FirstLayerAfterSources(const Plan& plan);

// Returns the reason why passes of this plan are queued layer by layer ("layer ..."), or an empty
// string if the plan contains none. A layer may add another reason at run time
// (Session::WhyNoGraph).
std::string WhyNoGraphCapture(const Plan& plan);

}  // namespace crema
