// Implementations that turn blobs in channels last around, for another implementation.
#pragma once

#include "graph/implementation.h"

namespace crema {

// What `implementation` of a GPU does with blobs in row-major order, on one input and one output in
// channels last, which are turned around in scratch. For extents that no other implementation takes
// in this format.
ImplementationPtr LayoutFallback(const ImplementationPtr& implementation);

}  // namespace crema
