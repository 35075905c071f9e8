// ZeroGradients of zero_gradient.h, on the GPU.
#pragma once

#include <span>

#include "layers/gpu_implementation.h"

namespace crema {

template <typename T>
static void FillZeros(const CudaQueue& queue, int64_t count, T* data) {
  ForElements(queue, "FillZeros", count,
              [=] CREMA_HOST_DEVICE(int64_t i) { data[i] = FromFloat<T>(0); });
}

// Writes zeros into those that are wanted.
inline void ZeroCudaGradients(const CudaQueue& queue, std::span<const TensorView> grads) {
  for (const TensorView& grad : grads) {
    if (grad.empty()) continue;
    DispatchCudaFloat(grad.dtype(),
                      [&]<typename T>(T) { FillZeros(queue, grad.count(), Elements<T>(grad)); });
  }
}

}  // namespace crema
