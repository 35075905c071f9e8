// The state at the start of an iteration of several passes, to restore if it is cancelled.
#pragma once

#include <vector>

#include "core/tensor.h"
#include "runtime/session.h"
#include "solvers/diagnose.h"

namespace crema {

// Positions of data readers, number of the pass, and running statistics, which forward passes
// change; the weights change at the end of an iteration only. Thread safety: one thread.
class IterationStart {
 public:
  // On a GPU the copies are queued. Allocates memory the first time.
  void Take(const Session& session);
  // Requires Take of the same session.
  void PutBack(Session* session) const;

 private:
  PassMark mark_;
  std::vector<Tensor> statistics_;  // by learned slot; empty if it is not a statistic
};

}  // namespace crema
