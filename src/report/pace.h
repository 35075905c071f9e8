// Throughput of a run, and its share of waiting.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

#include "solvers/training_observer.h"

namespace crema {

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

}  // namespace crema
