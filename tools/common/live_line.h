// Progress of a run on a terminal: one line, redrawn in place.
#pragma once

#include <chrono>
#include <mutex>
#include <span>
#include <string>

#include "report/pace.h"
#include "solvers/training_observer.h"

namespace crema::tools {

// As many of the parts, the most important first, as fit into `columns`, two spaces between them;
// the first is cut where it does not fit alone. Text of one column a byte.
std::string FitParts(std::span<const std::string> parts, size_t columns);

// Draws at most once in an interval and as wide as the terminal is at that moment. A redraw is one
// write that goes over what is there and clears the rest, so that nothing flickers. Tests and
// snapshots are lines of their own. The cursor stays visible and the line never wraps.
// Thread safety: events come from one thread; Print may be called by any.
class LiveLine final : public TrainingObserver {
 public:
  // `terminal` is a file descriptor; 80 columns where it does not tell.
  explicit LiveLine(int terminal,
                    std::chrono::milliseconds interval = std::chrono::milliseconds(100))
      : terminal_(terminal), interval_(interval) {}
  // Leaves the cursor at the beginning of an empty line.
  ~LiveLine() override;
  LiveLine(const LiveLine&) = delete;
  LiveLine& operator=(const LiveLine&) = delete;

  void OnStart(const std::string& net, int64_t iteration) override;
  void OnIteration(const IterationReport& report) override;
  void OnTestStart(int64_t iteration, size_t net) override;
  void OnTest(const TestReport& report) override;
  void OnSnapshot(const std::string& model, const std::string& state) override;
  void OnBest(const std::string& model, const std::string& metric, double value) override;
  void OnEnd(bool stopped_early) override;

  // A line above the live one.
  void Print(const std::string& text);

 private:
  void Draw(std::span<const std::string> parts);
  size_t Columns() const;
  void Write(const std::string& bytes) const;

  int terminal_;
  std::chrono::milliseconds interval_;
  std::mutex mutex_;  // of what is on the terminal
  std::string shown_;
  PaceWindow window_;
  int64_t first_iteration_ = 0;
  std::string progress_;  // "iter 20/100"
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point drawn_;
};

}  // namespace crema::tools
