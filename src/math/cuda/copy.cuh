// Copies and zeros on the GPU, queued like any kernel.
#pragma once

#include "math/cuda/launch.cuh"

namespace crema {

// Source and target may be the same, but may not overlap otherwise.
template <typename T>
static void CopyElements(const CudaQueue& queue, int64_t count, const T* from, T* to) {
  if (from == to) return;
  ForElements(queue, "CopyElements", count, [=] CREMA_HOST_DEVICE(int64_t i) { to[i] = from[i]; });
}

template <typename T>
static void ZeroElements(const CudaQueue& queue, int64_t count, T* to) {
  ForElements(queue, "ZeroElements", count,
              [=] CREMA_HOST_DEVICE(int64_t i) { to[i] = FromFloat<T>(0); });
}

}  // namespace crema
