// Rows that turn blobs in channels last around, for another row.
#pragma once

#include "graph/registry.h"

namespace crema {

// What `row` of a GPU does with blobs in row-major order, on one input and one output in channels
// last, which are turned around in scratch. For extents that no other row takes in this format.
Kernel ThroughRowMajor(Kernel row);

}  // namespace crema
