// Activations that implementations of other layers fuse.
#pragma once

#include "graph/layer.h"
#include "math/fused_activation.h"

namespace crema {

// Implemented by element-wise layers that implementations of other layers can compute.
class HasFusedActivation {
 public:
  virtual ~HasFusedActivation() = default;
  // Returns kNone if the layer has parameters that the kinds of FusedActivation lack.
  virtual FusedActivation fused_activation() const = 0;
};

// Returns the activation that this layer computes; kNone if it is another layer, or a ReLU
// (ReluOf). SiLU, Swish and Sigmoid have none: oneDNN takes as long for them as a pass of their own
// (docs/performance.md).
inline FusedActivation ActivationOf(const Layer& layer) {
  const auto* activation = dynamic_cast<const HasFusedActivation*>(&layer);
  return activation == nullptr ? FusedActivation{} : activation->fused_activation();
}

}  // namespace crema
