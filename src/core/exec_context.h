// What a layer needs to run besides its tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/allocator.h"
#include "core/device.h"
#include "core/device_queue.h"

namespace crema {

// One a session. Thread safety: one thread at a time.
class ExecContext {
 public:
  // On the CPU: `threads` of 0 means one for each processor this process may use.
  explicit ExecContext(int threads = 0, uint64_t seed = 1);
  // On a device: takes the queue (stream and handles) and the memory to work in.
  ExecContext(std::unique_ptr<DeviceQueue> queue, Allocator& allocator, uint64_t seed);
  ~ExecContext();
  ExecContext(ExecContext&&) noexcept;
  ExecContext& operator=(ExecContext&&) noexcept;

  Device device() const { return allocator_->device(); }
  Allocator& allocator() const { return *allocator_; }
  DeviceQueue* queue() const { return queue_.get(); }  // null on the CPU
  int threads() const { return threads_; }
  // Scratch is booked for a number of threads; more must not run.
  void LimitThreads(int most) { threads_ = threads_ < most ? threads_ : most; }

  // Random draws are a function of (seed, step, layer, element). `step` counts forward passes.
  uint64_t seed() const { return seed_; }
  uint64_t step() const { return step_; }
  void set_step(uint64_t step) { step_ = step; }

 private:
  Allocator* allocator_;
  std::unique_ptr<DeviceQueue> queue_;
  int threads_ = 1;
  uint64_t seed_;
  uint64_t step_ = 0;
};

// Processors that this process may run on.
int AvailableProcessors();

}  // namespace crema
