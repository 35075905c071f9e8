// GPU version of zero_gradient.h.
#pragma once

#include <span>

#include "layers/gpu_implementation.h"
#include "math/cuda/copy.cuh"

namespace crema {

// Zeroes the gradients that are not empty.
inline void ZeroCudaGradients(const CudaQueue& queue, std::span<const TensorView> grads) {
  for (const TensorView& grad : grads) {
    if (grad.empty()) continue;
    DispatchCudaFloat(grad.dtype(),
                      [&]<typename T>(T) { ZeroElements(queue, grad.count(), Elements<T>(grad)); });
  }
}

}  // namespace crema
