// Internal to Concat.
#pragma once

#include "graph/registry.h"

namespace crema {

Kernel Int8ConcatKernel();

}  // namespace crema
