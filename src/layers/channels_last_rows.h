// Rows of GPUs on blobs in channels last of layers that go by elements.
#pragma once

#include "graph/registry.h"

namespace crema {

// Requires the rows of GPUs on plain blobs, which are these too: where an element lies is all the
// same to them. Other layers add rows of their own.
void AddChannelsLastRows(Registry* registry);

}  // namespace crema
