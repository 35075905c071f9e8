// Channels-last implementations that transpose for a row-major one.
#pragma once

#include "graph/implementation.h"

namespace crema {

// Runs a row-major GPU `implementation` on one channels-last input and output, which it transposes
// in scratch. For sizes that no other channels-last implementation supports.
ImplementationPtr LayoutFallback(const ImplementationPtr& implementation);

}  // namespace crema
