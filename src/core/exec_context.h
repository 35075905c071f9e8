// Execution state of a layer besides its tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "core/allocator.h"
#include "core/device.h"
#include "core/device_queue.h"

namespace crema {

// Sums over the ranks of a run, in the middle of a pass. Thread safety: one thread per rank.
class RankSums {
 public:
  virtual ~RankSums() = default;
  // Replaces the values by their sums over all ranks: the same bits on all ranks. All ranks call it
  // equally often, in the same order, with equal sizes; each waits for the others. Throws
  // kDeviceFailure if one does not answer, kCancelled if one has failed.
  virtual void SumNow(std::span<double> values) = 0;
};

// One per session. Thread safety: one thread at a time.
class ExecContext {
 public:
  // CPU: `threads` of 0 means one per available processor.
  explicit ExecContext(int threads = 0, uint64_t seed = 1);
  // Device: takes the queue (streams and handles) and the allocator for its memory.
  ExecContext(std::unique_ptr<DeviceQueue> queue, Allocator& allocator, uint64_t seed);
  ~ExecContext();
  ExecContext(ExecContext&&) noexcept;
  ExecContext& operator=(ExecContext&&) noexcept;

  Device device() const { return allocator_->device(); }
  Allocator& allocator() const { return *allocator_; }
  DeviceQueue* queue() const { return queue_.get(); }  // null on the CPU
  int threads() const { return threads_; }
  // Limits the number of threads to the number that scratch memory is planned for.
  void LimitThreads(int most) { threads_ = threads_ < most ? threads_ : most; }

  // Random draws depend on (seed, step, layer, element) only. `step` counts forward passes.
  uint64_t seed() const { return seed_; }
  uint64_t step() const { return step_; }
  void set_step(uint64_t step) { step_ = step; }

  // Null: this rank is alone, or the session is not for training.
  RankSums* rank_sums() const { return rank_sums_; }
  void set_rank_sums(RankSums* sums) { rank_sums_ = sums; }

 private:
  Allocator* allocator_;
  std::unique_ptr<DeviceQueue> queue_;
  int threads_ = 1;
  uint64_t seed_;
  uint64_t step_ = 0;
  RankSums* rank_sums_ = nullptr;
};

// Returns the number of processors that this process may use: those of its affinity mask, but no
// more than the quota of its control groups.
int AvailableProcessors();

}  // namespace crema
