// Internal: fused activations as post-ops.
#pragma once

#include "math/cpu/onednn/primitives.h"
#include "math/fused_activation.h"

namespace crema::onednn {

// Errors of oneDNN 2.6, as shares of max(1, |y|): 4e-7 at most; kMish 1.1e-6. Below x = -5.5
// kGelu gives 0 (1e-7 and less); kElu and kMish lose the digits of numbers below 0 that are as
// small.
inline void AppendActivation(dnnl::post_ops* ops, const FusedActivation& activation) {
  using Kind = FusedActivation::Kind;
  using dnnl::algorithm;
  const float alpha = activation.alpha;
  switch (activation.kind) {
    case Kind::kNone:
      return;
    case Kind::kClip:
      return AppendEltwise(ops, algorithm::eltwise_clip, alpha, activation.beta);
    case Kind::kElu:
      return AppendEltwise(ops, algorithm::eltwise_elu, alpha);
    case Kind::kGelu:
      return AppendEltwise(ops, algorithm::eltwise_gelu_erf, 0);
    case Kind::kGeluTanh:
      return AppendEltwise(ops, algorithm::eltwise_gelu_tanh, 0);
    case Kind::kHardSwish:  // version 2 ignores the factors
      return AppendEltwise(ops, algorithm::eltwise_hardswish, 1.0F / 6, 0.5F);
    case Kind::kMish:
      return AppendEltwise(ops, algorithm::eltwise_mish, 0);
    case Kind::kTanH:
      return AppendEltwise(ops, algorithm::eltwise_tanh, 0);
  }
}

}  // namespace crema::onednn
