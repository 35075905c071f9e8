// Conv-BatchNorm fusion in training.
#pragma once

#include "plan/plan.h"

namespace crema {

// Fuses in training, if implementations allow it (ImplementationFacts::norm_role,
// Implementation::Accepts):
//   - a convolution whose sole consumer is a BatchNorm sums its output channels, and their squares,
//     while it writes them (a value `<blob>_sums`), so no layer reads the output for these sums;
//   - a BatchNorm [Scale] ReLU whose sole consumer is a convolution does not change its input. The
//     convolution normalises what it reads, forward and in the gradient of its weights. Its input
//     gradient passes through the ReLU and is summed while it is written (a value `<blob>_factors`
//     and its gradient).
// Records implementations that decline, with the reason, in `skipped`. Does not change layers that
// run again for the backward pass. Layouts of these values: graph/norm_fusion.h. Requires fused
// layers (plan/passes/fuse.h); no buffer is placed.
void FuseBatchNorm(Plan* plan);

}  // namespace crema
