// Work queues of devices: what sessions ask of one, without a word about which.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "core/allocator.h"
#include "core/dtype.h"
#include "core/error.h"

namespace crema {

// The work of a queue is done in two lanes, each in the order in which it was queued; between them
// only events say what comes first. What says no lane is in that of computing.
enum class DeviceStream { kCompute, kTransfer };

// A point in the work of a queue, which must outlive it. One that was never recorded has passed.
// Throws as DeviceQueue. Thread safety: that of the queue.
class DeviceEvent {
 public:
  virtual ~DeviceEvent() = default;
  // Behind all that the lane has been given so far.
  virtual void Record(DeviceStream stream) = 0;
  // What the lane is given from now on begins after the event; the host does not wait.
  virtual void StreamWait(DeviceStream stream) = 0;
  // Whether that work is done.
  virtual bool Passed() = 0;
  // Until it is.
  virtual void Wait() = 0;
  // From an event that passed earlier to this one, by the clock of the device. Both were made with
  // times and have passed.
  virtual double SecondsSince(DeviceEvent& earlier) = 0;
};

// Work that was kept (DeviceQueue::Capture). The queue must outlive it.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  // Queues all of it at once, with the arguments that it was kept with.
  virtual void Launch() = 0;
};

// Device streams and library handles; src/math/cuda has the CUDA one. The CPU needs none. All
// functions throw kDeviceFailure, also for work that was queued before; after that the queue is
// lost. Thread safety: one thread at a time.
class DeviceQueue {
 public:
  virtual ~DeviceQueue() = default;
  // Waits for all queued work, of both lanes.
  virtual void Synchronize() = 0;
  // From the host to the device; returns when `from` may be changed.
  virtual void Upload(void* to, const void* from, size_t bytes) = 0;
  // From the device to the host; returns when the bytes are there.
  virtual void Download(void* to, const void* from, size_t bytes) = 0;
  // Within the device; does not wait.
  virtual void Copy(void* to, const void* from, size_t bytes) = 0;
  // `count` elements of a floating type become `value`; does not wait.
  virtual void Fill(DType dtype, int64_t count, float value, void* to) = 0;

  // After an error of the device nothing can be done with it, but letting go: every later call
  // fails at once with the words of the first error, and the destructor asks nothing of the device.
  virtual void MarkLost(std::string_view why) noexcept = 0;
  virtual const std::string& lost() const = 0;  // why; empty: it is not

  // Ranges of time that profilers show (NVTX), one in the other; a name is copied.
  virtual void BeginRange(const char* name) = 0;
  virtual void EndRange() = 0;

  // None of these waits. The memory of the host is from HostMemory() (page-locked, to be freed
  // before the queue ends), and neither it nor the memory of the device may be changed, or read,
  // before the work is done.
  virtual Allocator& HostMemory() = 0;
  virtual void CopyToDeviceAsync(DeviceStream stream, void* to, const void* from, size_t bytes) = 0;
  virtual void DownloadLater(void* to, const void* from, size_t bytes) = 0;
  // `timed`: for SecondsSince.
  virtual std::unique_ptr<DeviceEvent> MakeEvent(bool timed) = 0;

  // Memory of the device holds what changes from one step to the next, so that work that is
  // launched again sees it.
  // `count` elements become value * *factor, a product in double.
  virtual void FillScaled(DType dtype, int64_t count, double value, const double* factor,
                          void* to) = 0;
  // *to += factor * (sum of `count` elements of a floating type), in double.
  virtual void AddSum(DType dtype, int64_t count, double factor, const void* from, double* to) = 0;
  // Begins a pass: *step is one more, and *sum 0.
  virtual void BeginPass(uint64_t* step, double* sum) = 0;
  // Where random draws of later work read the number of the pass; null: ExecContext::step().
  virtual void SetStepPlace(const uint64_t* step) = 0;

  // What `body` queues in the lane of computing is kept and not done. Throws kUnsupported, with the
  // reason, where it waits, moves bytes of the host, or does what else cannot be kept; nothing is
  // done then.
  virtual std::unique_ptr<DeviceGraph> Capture(const std::function<void()>& body) = 0;

  // *to becomes `value`.
  virtual void Store(uint64_t value, uint64_t* to) = 0;
};

// A range while it lives. Null: the CPU, which has none.
class DeviceRange {
 public:
  DeviceRange(DeviceQueue* queue, const char* name) : queue_(queue) {
    if (queue_ != nullptr) queue_->BeginRange(name);
  }
  ~DeviceRange() {
    if (queue_ != nullptr) queue_->EndRange();
  }
  DeviceRange(const DeviceRange&) = delete;
  DeviceRange& operator=(const DeviceRange&) = delete;

 private:
  DeviceQueue* queue_;
};

// Runs `body`; an error of the device that leaves it is the end of the queue. Null: the CPU.
template <typename Body>
void LosingQueue(DeviceQueue* queue, const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    if (queue != nullptr && error.code() == ErrorCode::kDeviceFailure)
      queue->MarkLost(error.what());
    throw;
  }
}

}  // namespace crema
