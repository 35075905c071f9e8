// Progress of a run on a terminal: one line, redrawn in place.
#pragma once

#include <chrono>
#include <cstdio>
#include <string>

#include "solvers/training_observer.h"

namespace crema::tools {

// Draws at most ten times a second; cut to the width of the terminal. Tests and snapshots are lines
// of their own. Thread safety: one thread.
class LiveLine final : public TrainingObserver {
 public:
  explicit LiveLine(std::FILE* terminal) : terminal_(terminal) {}
  ~LiveLine() override { Clear(); }

  void OnStart(const std::string& net, int64_t iteration) override;
  void OnIteration(const IterationReport& report) override;
  void OnTest(const TestReport& report) override;
  void OnSnapshot(const std::string& model, const std::string& state) override;
  void OnEnd(bool stopped_early) override;

 private:
  void Clear();
  void Line(const std::string& text);
  int Width() const;

  std::FILE* terminal_;
  int64_t first_iteration_ = 0;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point drawn_;
  bool visible_ = false;
};

// Passes every event to two observers.
class BothObservers final : public TrainingObserver {
 public:
  BothObservers(TrainingObserver& a, TrainingObserver& b) : a_(a), b_(b) {}
  void OnStart(const std::string& net, int64_t iteration) override {
    a_.OnStart(net, iteration);
    b_.OnStart(net, iteration);
  }
  void OnIteration(const IterationReport& r) override {
    a_.OnIteration(r);
    b_.OnIteration(r);
  }
  void OnTestStart(int64_t iteration, size_t net) override {
    a_.OnTestStart(iteration, net);
    b_.OnTestStart(iteration, net);
  }
  void OnTest(const TestReport& r) override {
    a_.OnTest(r);
    b_.OnTest(r);
  }
  void OnSnapshot(const std::string& model, const std::string& state) override {
    a_.OnSnapshot(model, state);
    b_.OnSnapshot(model, state);
  }
  void OnFinalLoss(int64_t iteration, double loss) override {
    a_.OnFinalLoss(iteration, loss);
    b_.OnFinalLoss(iteration, loss);
  }
  void OnEnd(bool stopped_early) override {
    a_.OnEnd(stopped_early);
    b_.OnEnd(stopped_early);
  }

 private:
  TrainingObserver& a_;
  TrainingObserver& b_;
};

}  // namespace crema::tools
