// Gradients of inputs that a layer takes a shape or places from, which are 0 wherever there are
// any.
#pragma once

#include <cstring>
#include <span>

#include "core/tensor.h"

namespace crema {

// Writes zeros into those that are wanted.
inline void ZeroGradients(std::span<const TensorView> grads) {
  for (const TensorView& grad : grads) {
    if (!grad.empty()) std::memset(grad.raw(), 0, grad.bytes());
  }
}

}  // namespace crema
