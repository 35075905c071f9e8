// PoolPlanes on the GPU.
#pragma once

#include <cstddef>

#include "layers/pooling/pool_planes.h"
#include "math/cuda/cuda_queue.h"
#include "math/cuda/device_random.h"

namespace crema {

// Positions of outputs in y: those of plane p begin at p / channels * item + first + p % channels *
// out.
struct PoolLayout {
  int64_t channels = 1;
  int64_t item = 0;
  int64_t first = 0;
  int64_t out = 0;

  CREMA_HOST_DEVICE int64_t At(int64_t plane, int64_t output) const {
    return plane / channels * item + first + plane % channels * out + output;
  }
};
// Returns the layout of consecutive planes.
inline PoolLayout DenseLayout(const PoolPlanes& pool) {
  return {.item = pool.out(), .out = pool.out()};
}

// Pools `planes` planes of `dtype`: f32, f16 or bf16. All calls are queued and do not wait. In
// channels last (`lanes` channels side by side in each cell), only MAX and AVE without positions.
struct CudaPool {
  const CudaQueue& queue;
  DType dtype;
  const PoolPlanes& pool;
  int64_t planes;
  PoolLayout layout;
  bool divide = true;  // if false, kAverage gives sums
  int64_t lanes = 1;   // if not 1, `layout` is ignored

  // As PoolPlanes::Forward. Each output uses element PoolLayout::At of `random`. `index`, one entry
  // per output and dense, and `positions` in the plane may be null.
  void Forward(const void* x, void* y, void* index, void* positions,
               const DeviceRandom& random) const;
  // As PoolPlanes::Backward. `add` means that dx is added to, not overwritten. `scratch` has the
  // size that BackwardScratch returns.
  void Backward(const void* x, const void* dy, void* dx, const void* index, bool add,
                void* scratch) const;
  // Returns bytes.
  static size_t BackwardScratch(const PoolPlanes& pool, int64_t planes);
};

}  // namespace crema
