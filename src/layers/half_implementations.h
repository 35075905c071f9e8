// GPU implementations on blobs of bfloat16 or half precision, for layers with `precision: BF16` or
// FP16.
#pragma once

#include "graph/registry.h"

namespace crema {

// Adds them for types with LayerTraits::fits_16_bits. Requires the implementations of
// AddGpuImplementations. Parameters, their gradients and statistics stay f32: implementations get
// rounded parameters, and their gradients are added to the f32 ones.
void AddHalfImplementations(Registry* registry);

}  // namespace crema
