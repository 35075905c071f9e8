// Iterations in the queue of a GPU.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "core/error.h"
#include "solvers/device_update.h"
#include "solvers/diagnose.h"
#include "solvers/training_observer.h"

namespace crema {

// An iteration whose outcome the host does not have yet.
struct QueuedIteration {
  IterationReport report;
  bool reported = false;        // to observers
  std::vector<PassMark> marks;  // before each pass
  double loss = 0;              // the mean over all ranks, if the losses are known at once
};

// The iterations in the order in which they were queued. Entries and their memory are reused.
// Thread safety: one thread.
class QueuedIterations {
 public:
  bool empty() const { return count_ == 0; }
  bool full() const { return count_ == places_.size(); }
  // Returns the place of the next iteration, to be filled before Push. Requires: not full.
  QueuedIteration& Next() {
    CREMA_CHECK(!full());
    return places_[(first_ + count_) % places_.size()];
  }
  void Push() { ++count_; }
  // Removes the oldest iteration. It may be read until the next call of Next. Requires: not empty.
  QueuedIteration& Pop() {
    CREMA_CHECK(!empty());
    QueuedIteration& oldest = places_[first_];
    first_ = (first_ + 1) % places_.size();
    --count_;
    return oldest;
  }
  void Clear() { count_ = 0; }

 private:
  std::array<QueuedIteration, DeviceUpdate::kMostAhead> places_;
  size_t first_ = 0;
  size_t count_ = 0;
};

}  // namespace crema
