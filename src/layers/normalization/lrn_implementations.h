// Implementations of LRN that are not in lrn.cc.
#pragma once

#include "graph/implementation.h"

namespace crema {

// Implementation "onednn", where the build has it: forward by oneDNN, all else as in our own
// implementation on blocked blobs, which is given.
ImplementationPtr OneDnnLrnImplementation(ImplementationPtr blocked);
// Implementation "onednn, workspace", likewise: forward and backward by oneDNN, for twice the size
// of x that is saved in between.
ImplementationPtr OneDnnLrnTrainingImplementation(ImplementationPtr blocked);

}  // namespace crema
