// Logs a run as events for --log_format=json.
#pragma once

#include "solvers/training_observer.h"

namespace crema::tools {

// Logs one line for each displayed iteration, test, snapshot, new best and the end, with the
// numbers in "fields". Thread safety: one thread.
class JsonLines final : public TrainingObserver {
 public:
  void OnStart(const std::string& net, int64_t iteration) override;
  void OnIteration(const IterationReport& report) override;
  void OnTest(const TestReport& report) override;
  void OnSnapshot(const std::string& model, const std::string& state) override;
  void OnBest(const std::string& model, const std::string& metric, double value) override;
  void OnFinalLoss(int64_t iteration, double loss) override;
  void OnEnd(bool stopped_early) override;
};

}  // namespace crema::tools
