// Internal to Concat.
#pragma once

#include "graph/implementation.h"

namespace crema {

ImplementationPtr Int8ConcatImplementation();

}  // namespace crema
