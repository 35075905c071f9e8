// Rows of GPUs on blobs in channels last that are made of those on others.
#pragma once

#include "graph/registry.h"

namespace crema {

// Requires the native rows of GPUs, and no others yet. Of layers that go by elements they are these
// too; of convolutions they are the fallback. Other layers add rows of their own.
void AddChannelsLastRows(Registry* registry);

}  // namespace crema
