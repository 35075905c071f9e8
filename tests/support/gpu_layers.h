#pragma once

#include "graph/registry.h"

namespace crema::test {

// All built-in layers, with their rows for GPUs also where CUDA was not built.
const Registry& LayersWithGpuRows();

}  // namespace crema::test
