// The last lines of a training: its results, and the commands that continue from them.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "solvers/solver_config.h"
#include "solvers/training_observer.h"

namespace crema::tools {

// Remembers the results of a run. Thread safety: one thread.
class NextSteps final : public TrainingObserver {
 public:
  void OnStart(const std::string& net, int64_t iteration) override;
  void OnTest(const TestReport& report) override;
  void OnSnapshot(const std::string& model, const std::string& state) override;
  void OnBest(const std::string& model, const std::string& metric, double value) override;
  void OnEarlyStop() override { complete_ = true; }
  void OnEnd(bool stopped_early) override { complete_ = complete_ || !stopped_early; }

  // Returns the lines: the last test, the best one, the weights, the commands that resume a stopped
  // run, evaluate the weights of the best test (or the last, if those were not kept) and report on
  // the run. The best test is that of all starts, from `run_folder`, which may be empty.
  // `arguments` are those of the command.
  std::vector<std::string> Lines(const RunConfig& config, const std::string& run_folder,
                                 const std::vector<std::string>& arguments) const;

 private:
  struct Best {
    std::string line;     // empty: unknown
    std::string weights;  // empty: not kept
  };
  Best FindBest(const SolverParameter& solver, const std::string& run_folder) const;

  std::string tests_;  // of the last iteration with tests
  int64_t tested_ = -1;
  std::string best_;
  std::string best_model_;
  std::string model_;
  std::set<std::string> models_;  // all that were written since the start
  int64_t first_iteration_ = 0;
  bool complete_ = false;
};

}  // namespace crema::tools
