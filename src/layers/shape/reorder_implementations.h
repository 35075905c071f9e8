// Internal to Reorder.
#pragma once

#include <vector>

#include "graph/implementation.h"

namespace crema {

// Returns those between channels-last bfloat16 and plain, blocked and blocked bfloat16 blobs. Only
// in builds with oneDNN (CREMA_HAVE_ONEDNN).
std::vector<ImplementationPtr> ChannelsLastReorders();

}  // namespace crema
