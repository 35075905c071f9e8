// Shows the progress of a run on a terminal: one line, redrawn in place.
#pragma once

#include <chrono>
#include <string>

#include "common/terminal_line.h"
#include "report/pace.h"
#include "solvers/training_observer.h"

namespace crema::tools {

// Redraws at most once per interval. Prints tests and snapshots as separate lines. Thread safety:
// events come from one thread; Print may be called by any.
class LiveLine final : public TrainingObserver {
 public:
  // `terminal` is a file descriptor; assumes 80 columns if the width is unknown.
  explicit LiveLine(int terminal,
                    std::chrono::milliseconds interval = std::chrono::milliseconds(100))
      : line_(terminal), interval_(interval) {}

  void OnStart(const std::string& net, int64_t iteration) override;
  void OnIteration(const IterationReport& report) override;
  void OnTestStart(int64_t iteration, size_t net) override;
  void OnTest(const TestReport& report) override;
  void OnSnapshot(const std::string& model, const std::string& state) override;
  void OnBest(const std::string& model, const std::string& metric, double value) override;
  void OnEnd(bool stopped_early) override;

  // Prints a line above the live one.
  void Print(const std::string& text) { line_.Print(text); }

 private:
  TerminalLine line_;
  std::chrono::milliseconds interval_;
  PaceWindow window_;
  int64_t first_iteration_ = 0;
  double loss_ = 0;       // exponential mean, as losses of single iterations jump
  std::string progress_;  // "iter 20/100"
  std::string metric_;    // first output of the first test net; empty: no test yet
  double last_ = 0;       // its values
  double best_ = 0;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point drawn_;
};

}  // namespace crema::tools
