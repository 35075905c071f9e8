// What PoolPlanes does, on the GPU.
#pragma once

#include <cstddef>

#include "layers/pooling/pool_planes.h"
#include "math/cuda/cuda_queue.h"
#include "math/cuda/device_random.h"

namespace crema {

// Where outputs lie: those of plane p begin at p / channels * item + first + p % channels * out.
struct PoolLayout {
  int64_t channels = 1;
  int64_t item = 0;
  int64_t first = 0;
  int64_t out = 0;

  CREMA_HOST_DEVICE int64_t At(int64_t plane, int64_t output) const {
    return plane / channels * item + first + plane % channels * out + output;
  }
};
// One plane behind the other.
inline PoolLayout DenseLayout(const PoolPlanes& pool) {
  return {.item = pool.out(), .out = pool.out()};
}

// `planes` planes of `dtype`, f32, f16 or bf16. All calls are queued and do not wait. In channels
// last (`lanes` channels lie side by side, cell by cell) MAX and AVE only, without positions.
struct CudaPool {
  const CudaQueue& queue;
  DType dtype;
  const PoolPlanes& pool;
  int64_t planes;
  PoolLayout layout;
  bool divide = true;  // false: kAverage gives sums
  int64_t lanes = 1;   // other than 1: `layout` does not count

  // As PoolPlanes::Forward; element PoolLayout::At of `random` serves an output. Indices, one
  // behind the other, and `positions` in the plane may be null.
  void Forward(const void* x, void* y, void* index, void* positions,
               const DeviceRandom& random) const;
  // As PoolPlanes::Backward; `add`: to dx instead of writing it. `scratch`: see BackwardScratch.
  void Backward(const void* x, const void* dy, void* dx, const void* index, bool add,
                void* scratch) const;
  // Bytes.
  static size_t BackwardScratch(const PoolPlanes& pool, int64_t planes);
};

}  // namespace crema
