// Zero gradients, of inputs from which a layer takes only a shape or indices.
#pragma once

#include <cstring>
#include <span>

#include "core/tensor.h"

namespace crema {

// Zeroes the gradients that are not empty.
inline void ZeroGradients(std::span<const TensorView> grads) {
  for (const TensorView& grad : grads) {
    if (!grad.empty()) std::memset(grad.raw(), 0, grad.bytes());
  }
}

}  // namespace crema
