// The last lines of a training: its results, and the commands that continue from them.
#pragma once

#include <string>
#include <vector>

#include "solvers/solver_config.h"
#include "solvers/training_observer.h"

namespace crema::tools {

// Remembers the results of a run. Thread safety: one thread.
class NextSteps final : public TrainingObserver {
 public:
  void OnTest(const TestReport& report) override;
  void OnSnapshot(const std::string& model, const std::string& state) override;
  void OnBest(const std::string& model, const std::string& metric, double value) override;
  void OnEarlyStop() override { complete_ = true; }
  void OnEnd(bool stopped_early) override { complete_ = complete_ || !stopped_early; }

  // Returns the lines: the last test, the best one, the weights, the commands that resume a stopped
  // run, evaluate the weights and report on the run. `run_folder` may be empty. `arguments` are
  // those of the command.
  std::vector<std::string> Lines(const RunConfig& config, const std::string& run_folder,
                                 const std::vector<std::string>& arguments) const;

 private:
  std::string tests_;  // of the last iteration with tests
  int64_t tested_ = -1;
  std::string best_;
  std::string model_;
  bool complete_ = false;
};

}  // namespace crema::tools
