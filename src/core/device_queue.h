// Work queues of devices, independent of the kind of device.
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

// A queue has two streams, each executed in the order of submission; only events order them
// relative to each other. Functions without a stream argument use kCompute.
enum class DeviceStream { kCompute, kTransfer };

// A point in the work of a queue, which must outlive it. An event that was never recorded has
// passed. Throws like DeviceQueue. Thread safety: that of the queue.
class DeviceEvent {
 public:
  virtual ~DeviceEvent() = default;
  // Records the event after all work submitted to the stream so far.
  virtual void Record(DeviceStream stream) = 0;
  // Makes later work of the stream wait for the event; does not block the host.
  virtual void StreamWait(DeviceStream stream) = 0;
  // Returns true if that work is complete.
  virtual bool Passed() = 0;
  // Blocks until that work is complete.
  virtual void Wait() = 0;
  // Returns the seconds between an earlier event and this one, by the device's clock. Requires:
  // both are timed and have passed.
  virtual double SecondsSince(DeviceEvent& earlier) = 0;
};

// Captured work (DeviceQueue::Capture). The queue must outlive it.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  // Submits the whole graph with its captured arguments.
  virtual void Launch() = 0;
};

// Device streams and library handles, implemented for CUDA in src/math/cuda. The CPU needs none.
// All functions throw kDeviceFailure, also for errors of earlier work; the queue is lost then.
// Thread safety: one thread at a time.
class DeviceQueue {
 public:
  virtual ~DeviceQueue() = default;
  // Waits for all submitted work of both streams.
  virtual void Synchronize() = 0;
  // Copies from host to device; returns when `from` may be changed.
  virtual void Upload(void* to, const void* from, size_t bytes) = 0;
  // Copies from device to host; returns when the bytes have arrived.
  virtual void Download(void* to, const void* from, size_t bytes) = 0;
  // Copies within the device, asynchronously.
  virtual void Copy(void* to, const void* from, size_t bytes) = 0;
  // Sets `count` elements of a floating type to `value`, asynchronously.
  virtual void Fill(DType dtype, int64_t count, float value, void* to) = 0;

  // Marks the device as failed. Every later call fails at once with the message of the first error,
  // and the destructor makes no device calls.
  virtual void MarkLost(std::string_view why) noexcept = 0;
  virtual const std::string& lost() const = 0;  // the reason; empty: not lost

  // Nested ranges for profilers (NVTX). Copies the name.
  virtual void BeginRange(const char* name) = 0;
  virtual void EndRange() = 0;

  // Asynchronous. The host memory is from HostMemory() (page-locked, to be freed before the queue
  // is destroyed). Until the work is complete, neither host nor device memory may be changed or
  // read.
  virtual Allocator& HostMemory() = 0;
  virtual void CopyToDeviceAsync(DeviceStream stream, void* to, const void* from, size_t bytes) = 0;
  virtual void CopyToHostAsync(void* to, const void* from, size_t bytes) = 0;
  // `timed`: supports SecondsSince.
  virtual std::unique_ptr<DeviceEvent> MakeEvent(bool timed) = 0;

  // The arguments that change between steps are in device memory, so that a relaunched graph sees
  // their current values. Sets `count` elements to value * *factor, computed in double.
  virtual void FillScaled(DType dtype, int64_t count, double value, const double* factor,
                          void* to) = 0;
  // *to += factor * (sum of `count` elements of a floating type), in double.
  virtual void AddSum(DType dtype, int64_t count, double factor, const void* from, double* to) = 0;
  // Begins a pass: increments *step and sets *sum to 0.
  virtual void BeginPass(uint64_t* step, double* sum) = 0;
  // Sets where random draws of later work read the number of the pass; null: ExecContext::step().
  virtual void SetStepPlace(const uint64_t* step) = 0;

  // Captures the work that `body` submits to the compute stream without executing it. Throws
  // kUnsupported, with the reason, if `body` waits, copies from or to the host, or does other work
  // that cannot be captured; nothing is executed then.
  virtual std::unique_ptr<DeviceGraph> Capture(const std::function<void()>& body) = 0;

  // Sets *to to `value`.
  virtual void Store(uint64_t value, uint64_t* to) = 0;
};

// A profiler range for its lifetime. Null: the CPU, which has none.
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

// Runs `body`; a device error marks the queue as lost. Null: the CPU.
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
