// ZeroGradients of zero_gradient.h, on the GPU.
#pragma once

#include <span>

#include "layers/gpu_implementation.h"
#include "math/cuda/copy.cuh"

namespace crema {

// Writes zeros into those that are wanted.
inline void ZeroCudaGradients(const CudaQueue& queue, std::span<const TensorView> grads) {
  for (const TensorView& grad : grads) {
    if (grad.empty()) continue;
    DispatchCudaFloat(grad.dtype(),
                      [&]<typename T>(T) { ZeroElements(queue, grad.count(), Elements<T>(grad)); });
  }
}

}  // namespace crema
