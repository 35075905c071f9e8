// Rows of RNN, LSTM and GRU besides the native one.
#pragma once

#include "graph/registry.h"

namespace crema {

// Row "onednn": the products of steps; all else is the native layer's.
Kernel OneDnnRecurrentKernel();

}  // namespace crema
