// Page-locked memory in which the host and a GPU that is behind it hand things to each other.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "core/device_queue.h"
#include "core/tensor.h"

namespace crema {

// Places for `T`s that are used in turn. One is used again when the work that was recorded behind
// its last use is done, which is waited for. The queue must outlive it. Thread safety: one thread.
template <typename T>
class HostRing {
 public:
  HostRing(DeviceQueue& queue, size_t places) : queue_(queue) {
    for (size_t i = 0; i < places; ++i) events_.push_back(queue.MakeEvent(false));
  }

  ~HostRing() {
    try {
      Clear();
    } catch (const Error&) {  // the device is lost, and does nothing with it any more
    }
  }
  HostRing(const HostRing&) = delete;
  HostRing& operator=(const HostRing&) = delete;

  // Each place is `count` Ts from now on. Waits for the work of all.
  void Reserve(size_t count) {
    Clear();
    const auto doubles = (count * sizeof(T) + sizeof(double) - 1) / sizeof(double);
    stride_ = doubles * sizeof(double);
    memory_ = Tensor(Shape{static_cast<int64_t>(doubles * events_.size())}, DType::kF64,
                     queue_.HostMemory());
  }
  // The next place, to be written; Record follows when the work that uses it was queued.
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
  // The first that was recorded and not taken, if its work is done; `wait`: then it is. Null: none.
  // It may be read until the next call of Next.
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
  // Takes the first without a look at it.
  void Drop() {
    taken_ = (taken_ + 1) % events_.size();
    --there_;
  }
  // Forgets all of them, when their work is done.
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
  size_t taken_ = 0;  // the place of the first
  size_t there_ = 0;
};

}  // namespace crema
