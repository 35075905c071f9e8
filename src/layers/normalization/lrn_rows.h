// Rows of LRN that are not in lrn.cc.
#pragma once

#include "graph/registry.h"

namespace crema {

// Row "onednn", where the build has it: forward by oneDNN, all else as in our own row on blocked
// blobs, which is given.
Kernel OneDnnLrnKernel(Kernel blocked);

}  // namespace crema
