// Implementations whose states choose among engines of a library.
#pragma once

#include <memory>

#include "plan/implementation_timer.h"

namespace crema {

// Base of an ImplementationState, besides that one. Thread safety: one thread at a time.
class TunesEngines {
 public:
  virtual ~TunesEngines() = default;
  // Whom the first pass asks which is the fastest (ImplementationTimer::MeasureEngines). Not
  // called: it takes what the library proposes first.
  virtual void UseTimer(std::shared_ptr<ImplementationTimer> timer) = 0;
};

}  // namespace crema
