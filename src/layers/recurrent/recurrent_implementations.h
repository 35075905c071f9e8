// Implementations of RNN, LSTM and GRU besides the native one.
#pragma once

#include "graph/registry.h"

namespace crema {

// Implementation "onednn": the products of steps; all else is the native layer's.
Implementation OneDnnRecurrentImplementation();

}  // namespace crema
