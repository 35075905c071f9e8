// Page-locked memory through which the host and a GPU exchange data asynchronously.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "core/device_queue.h"
#include "core/tensor.h"

namespace crema {

// A ring of places for `T`s. A place is reused when the work recorded after its last use is
// complete, which is waited for. The queue must outlive it. Thread safety: one thread.
template <typename T>
class HostRing {
 public:
  HostRing(DeviceQueue& queue, size_t places) : queue_(queue) {
    for (size_t i = 0; i < places; ++i) events_.push_back(queue.MakeEvent(false));
  }

  ~HostRing() {
    try {
      Clear();
    } catch (const Error&) {  // a lost device no longer uses the memory
    }
  }
  HostRing(const HostRing&) = delete;
  HostRing& operator=(const HostRing&) = delete;

  // Makes each place `count` Ts. Waits for the work of all.
  void Reserve(size_t count) {
    Clear();
    const auto doubles = (count * sizeof(T) + sizeof(double) - 1) / sizeof(double);
    stride_ = doubles * sizeof(double);
    memory_ = Tensor(Shape{static_cast<int64_t>(doubles * events_.size())}, DType::kF64,
                     queue_.HostMemory());
  }
  // Returns the next place, to be written; call Record after queuing the work that uses it.
  T* Next() {
    const size_t at = (taken_ + there_) % events_.size();
    CREMA_CHECK(there_ < events_.size());
    if (!events_[at]->Passed()) events_[at]->Wait();
    return At(at);
  }
  void Record() {
    events_[(taken_ + there_) % events_.size()]->Record(DeviceStream::kCompute);
    ++there_;
  }
  // Returns the oldest recorded place that was not taken, if its work is complete or, with `wait`,
  // when it is. Null: none. It may be read until the next call of Next.
  const T* Take(bool wait) {
    if (there_ == 0) return nullptr;
    DeviceEvent& event = *events_[taken_];
    if (!event.Passed()) {
      if (!wait) return nullptr;
      event.Wait();
    }
    const T* place = At(taken_);
    Drop();
    return place;
  }
  // Takes the oldest without reading it.
  void Drop() {
    taken_ = (taken_ + 1) % events_.size();
    --there_;
  }
  // Discards all places, when their work is complete.
  void Clear() {
    for (const auto& event : events_) {
      if (!event->Passed()) event->Wait();
    }
    there_ = 0;
  }

 private:
  T* At(size_t place) {
    auto* base = static_cast<std::byte*>(memory_.view().raw());
    return reinterpret_cast<T*>(base + place * stride_);
  }

  DeviceQueue& queue_;
  std::vector<std::unique_ptr<DeviceEvent>> events_;
  Tensor memory_;
  size_t stride_ = 0;
  size_t taken_ = 0;  // the place of the oldest
  size_t there_ = 0;
};

}  // namespace crema
