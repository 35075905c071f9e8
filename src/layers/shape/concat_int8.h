// Internal to Concat.
#pragma once

#include "graph/registry.h"

namespace crema {

Implementation Int8ConcatImplementation();

}  // namespace crema
