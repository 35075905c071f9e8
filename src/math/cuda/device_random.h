// Random draws of kernels.
#pragma once

#include "core/rng.h"
#include "math/cuda/cuda_queue.h"

namespace crema {

// A stream whose step is read where the session counts it (DeviceQueue::SetStepPlace), when the
// kernel runs: work that is launched again draws anew. Without such a place, that of the context.
class DeviceRandom {
 public:
  DeviceRandom(const CudaQueue& queue, const RandomStream& stream)
      : stream_(stream), step_(queue.step_place()) {}

  // Of kernels.
  CREMA_HOST_DEVICE RandomStream Now() const {
    return step_ == nullptr ? stream_ : stream_.At(*step_);
  }

 private:
  RandomStream stream_;
  const uint64_t* step_;
};

}  // namespace crema
