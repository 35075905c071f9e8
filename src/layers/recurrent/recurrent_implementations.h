// Non-native implementations of RNN, LSTM and GRU.
#pragma once

#include "graph/implementation.h"

namespace crema {

// Returns implementation "onednn": oneDNN computes the matrix products of the steps, and the native
// layer the rest.
ImplementationPtr OneDnnRecurrentImplementation();

}  // namespace crema
