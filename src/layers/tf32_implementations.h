// Implementations of GPUs whose products round what they multiply to TF32, for layers with
// `precision: TF32`.
#pragma once

#include "graph/registry.h"

namespace crema {

// Of types with LayerTraits::multiplies_matrices. Requires the implementations of
// AddGpuImplementations. Blobs stay f32; implementations for FP32 never round so.
void AddTf32Implementations(Registry* registry);

}  // namespace crema
