// Rows of LRN that are not in lrn.cc.
#pragma once

#include "graph/registry.h"

namespace crema {

// Row "onednn", where the build has it: forward by oneDNN, all else as in our own row on blocked
// blobs, which is given.
Kernel OneDnnLrnKernel(Kernel blocked);
// Row "onednn, workspace", likewise: forward and backward by oneDNN, for twice the size of x that
// is saved in between.
Kernel OneDnnLrnTrainingKernel(Kernel blocked);

}  // namespace crema
