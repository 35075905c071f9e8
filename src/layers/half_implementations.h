// Implementations of GPUs on blobs of bfloat16 or half precision, for layers with `precision: BF16`
// or FP16.
#pragma once

#include "graph/registry.h"

namespace crema {

// Of types with LayerTraits::fits_16_bits. Requires the implementations of AddGpuImplementations.
// What is learned, its gradients and statistics stay f32: implementations get it rounded, and what
// they make of gradients is added to those of f32.
void AddHalfImplementations(Registry* registry);

}  // namespace crema
