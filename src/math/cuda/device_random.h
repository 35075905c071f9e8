// Random numbers in kernels.
#pragma once

#include "core/rng.h"
#include "math/cuda/cuda_queue.h"

namespace crema {

// A random stream that reads its step when the kernel runs, from the session's counter
// (DeviceQueue::SetStepPlace), so that replayed graphs draw new numbers. Without a counter it uses
// the step of the context.
class DeviceRandom {
 public:
  DeviceRandom(const CudaQueue& queue, const RandomStream& stream)
      : stream_(stream), step_(queue.step_place()) {}

  // Call in kernels.
  CREMA_HOST_DEVICE RandomStream Now() const {
    return step_ == nullptr ? stream_ : stream_.At(*step_);
  }

 private:
  RandomStream stream_;
  const uint64_t* step_;
};

}  // namespace crema
