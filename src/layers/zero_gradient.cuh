// GPU version of zero_gradient.h.
#pragma once

#include <span>

#include "layers/gpu_implementation.h"
#include "math/cuda/copy.cuh"

namespace crema {

inline void ZeroCuda(const CudaQueue& queue, const TensorView& view) {
  DispatchCudaFloat(view.dtype(),
                    [&]<typename T>(T) { ZeroElements(queue, view.count(), Elements<T>(view)); });
}

// Zeroes the gradients that are not empty.
inline void ZeroCudaGradients(const CudaQueue& queue, std::span<const TensorView> grads) {
  for (const TensorView& grad : grads) {
    if (!grad.empty()) ZeroCuda(queue, grad);
  }
}

}  // namespace crema
