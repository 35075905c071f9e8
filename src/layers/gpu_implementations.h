// Registration of all GPU implementations.
#pragma once

#include "graph/registry.h"

namespace crema {

// Adds them to the built-in layers, which must already be registered, with all variants below.
// BuiltinRegistry calls this in builds with CUDA; in other builds tests call it, for the GPU
// emulation (math/cuda/emulation.h).
void AddGpuImplementations(Registry* registry);

// Adds the implementations by cuDNN before the native GPU ones. Only in builds with cuDNN's
// headers.
void AddCudnnImplementations(Registry* registry);

// Adds implementations on blobs of bfloat16 or half precision for types with
// LayerTraits::fits_16_bits, for layers with `precision: BF16` or FP16. Parameters, their gradients
// and statistics stay f32: implementations get rounded parameters, and their gradients are added to
// the f32 ones.
void AddHalfImplementations(Registry* registry);

// Adds implementations that round the factors of matrix products to TF32 for types with
// LayerTraits::multiplies_matrices, for layers with `precision: TF32`. Blobs stay f32; FP32
// implementations never use TF32.
void AddTf32Implementations(Registry* registry);

}  // namespace crema
