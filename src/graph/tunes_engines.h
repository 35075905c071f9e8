// Rows whose states choose among engines of a library.
#pragma once

#include <memory>

#include "graph/row_timer.h"

namespace crema {

// Base of a KernelState, besides that one. Thread safety: one thread at a time.
class TunesEngines {
 public:
  virtual ~TunesEngines() = default;
  // Whom the first pass asks which is the fastest (RowTimer::MeasureEngines). Not called: it takes
  // what the library proposes first.
  virtual void UseTimer(std::shared_ptr<RowTimer> timer) = 0;
};

}  // namespace crema
