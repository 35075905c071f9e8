// Implementation states that choose among engines of a library.
#pragma once

#include <memory>

#include "plan/implementation_timer.h"

namespace crema {

// Additional base of an ImplementationState. Thread safety: one thread at a time.
class TunesEngines {
 public:
  virtual ~TunesEngines() = default;
  // Sets the timer that the first pass uses to find the fastest engine
  // (ImplementationTimer::MeasureEngines). Without this call the state uses the first engine that
  // the library proposes.
  virtual void UseTimer(std::shared_ptr<ImplementationTimer> timer) = 0;
};

}  // namespace crema
