// Warns once if training waits for its data.
#pragma once

#include "core/log.h"
#include "report/pace.h"
#include "solvers/training_observer.h"

namespace crema {

// Warns once per run if waiting takes more than a fifth of the time of 100 consecutive iterations.
// Thread safety: one thread.
class WaitHint final : public TrainingObserver {
 public:
  explicit WaitHint(LogSink& log) : log_(log) {}

  void OnIteration(const IterationReport& report) override;

 private:
  LogSink& log_;
  PaceWindow window_{kIterations};
  bool first_ = true;
  bool said_ = false;

  static constexpr size_t kIterations = 100;
};

}  // namespace crema
