// Implementations of RNN, LSTM and GRU besides the native one.
#pragma once

#include "graph/implementation.h"

namespace crema {

// Implementation "onednn": the products of steps; all else is the native layer's.
ImplementationPtr OneDnnRecurrentImplementation();

}  // namespace crema
