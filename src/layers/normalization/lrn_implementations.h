// Implementations of LRN that are not in lrn.cc.
#pragma once

#include "graph/implementation.h"

namespace crema {

// Returns implementation "onednn": forward by oneDNN, all else as in `blocked`, our implementation
// on blocked blobs. Only in builds with oneDNN.
ImplementationPtr OneDnnLrnImplementation(ImplementationPtr blocked);
// Returns implementation "onednn, workspace": forward and backward by oneDNN, with twice the size
// of x saved between them. Only in builds with oneDNN.
ImplementationPtr OneDnnLrnTrainingImplementation(ImplementationPtr blocked);

}  // namespace crema
