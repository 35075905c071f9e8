// Convolutions that do part of the work of the normalisations next to them.
#pragma once

#include "plan/plan.h"

namespace crema {

// In training, where implementations can (ImplementationFacts::norm_role, Implementation::Accepts):
//   - a convolution whose output a normalisation alone reads sums its channels, and their squares,
//     while it writes it (a value `<blob>_sums`), so that nobody reads it for that;
//   - a normalisation [Scale] ReLU that a convolution alone reads leaves its input as it is, and
//     the convolution normalises what it reads, forward and in the gradient of its weights; its
//     gradient goes through the ReLU and is summed while it is written (a value `<blob>_factors`
//     and its gradient).
// Implementations that say no are kept with the reason in `skipped`. Layers that run again for the
// backward pass are left alone. Layouts of these values: graph/norm_fusion.h. Requires fused layers
// (plan/passes/fuse.h); nothing is placed.
void FuseBatchNorm(Plan* plan);

}  // namespace crema
