// Where an iteration of several passes began, for one that is given up.
#pragma once

#include <vector>

#include "core/tensor.h"
#include "runtime/session.h"
#include "solvers/diagnose.h"

namespace crema {

// Positions of data readers, number of the pass, and statistics, which forward passes change; the
// weights are changed at the end of an iteration only. Thread safety: one thread.
class IterationStart {
 public:
  // On a GPU the copies are queued. Allocates memory the first time.
  void Take(const Session& session);
  // Requires Take of the same session.
  void PutBack(Session* session) const;

 private:
  PassMark mark_;
  std::vector<Tensor> statistics_;  // by learned slot; empty: it is none
};

}  // namespace crema
