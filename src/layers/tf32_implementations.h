// GPU implementations that round the factors of matrix products to TF32, for layers with
// `precision: TF32`.
#pragma once

#include "graph/registry.h"

namespace crema {

// Adds them for types with LayerTraits::multiplies_matrices. Requires the implementations of
// AddGpuImplementations. Blobs stay f32; FP32 implementations never use TF32.
void AddTf32Implementations(Registry* registry);

}  // namespace crema
