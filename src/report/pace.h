// Throughput of a run, and its share of waiting; a warning if that is large.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

#include "core/log.h"
#include "solvers/training_observer.h"

namespace crema {

// The times of the ranks, summed over several iterations.
struct RankPace {
  RankTimes sum;
  double seconds = 0;  // of the iterations
  int iterations = 0;

  void Add(const IterationReport& report);
};

// Warns once per run if a rank is much slower than the others, or if sums of gradients take much of
// the time of 100 consecutive iterations. Thread safety: one thread.
class RankHint final : public TrainingObserver {
 public:
  explicit RankHint(LogSink& log) : log_(log) {}

  void OnIteration(const IterationReport& report) override;

 private:
  void WarnOfSlowRank();
  void WarnOfSums();

  LogSink& log_;
  RankPace pace_;
  bool slow_said_ = false;
  bool sums_said_ = false;
};

// Sums over several iterations.
struct Pace {
  double seconds = 0;
  double wait_seconds = 0;
  double samples = 0;
  double iterations = 0;

  void Add(const IterationReport& report) {
    seconds += report.seconds;
    wait_seconds += report.wait_seconds;
    samples += static_cast<double>(report.samples);
    iterations += 1;
  }
  // NaN without data.
  double SamplesPerSecond() const { return seconds > 0 && samples > 0 ? samples / seconds : NAN; }
  double IterationsPerSecond() const { return seconds > 0 ? iterations / seconds : NAN; }
  double WaitShare() const { return seconds > 0 ? wait_seconds / seconds : NAN; }  // 0..1
};

// Sums over the last `size` iterations.
class PaceWindow {
 public:
  explicit PaceWindow(size_t size = 100) : size_(size) {}

  void Add(const IterationReport& report) {
    Pace one;
    one.Add(report);
    if (paces_.size() < size_) {
      paces_.push_back(one);
    } else {
      paces_[oldest_] = one;
      oldest_ = (oldest_ + 1) % size_;
    }
  }
  bool IsFull() const { return paces_.size() == size_; }
  Pace Total() const {
    Pace total;
    for (const Pace& pace : paces_) {
      total.seconds += pace.seconds;
      total.wait_seconds += pace.wait_seconds;
      total.samples += pace.samples;
      total.iterations += pace.iterations;
    }
    return total;
  }

 private:
  size_t size_;
  size_t oldest_ = 0;
  std::vector<Pace> paces_;
};

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
