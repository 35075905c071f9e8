// Tracks the best test of a run by one metric (MetricRule in crema.proto).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "crema.pb.h"
#include "plan/plan.h"
#include "solvers/training_observer.h"

namespace crema {

// Thread safety: one thread.
class MetricTracker {
 public:
  // `field` names the rule in the solver: "early_stop". `tests` are the plans of the test nets.
  // Throws kInvalidArgument (where.field set) if they do not compute the metric, if it is more than
  // one number, or for a patience or min_delta out of range.
  MetricTracker(std::string field, const MetricRule& rule, std::span<const Plan* const> tests);

  // Takes the reports of all test nets, in order, after one round of tests. Returns true if it is
  // better than every earlier round by min_delta. NaN is never better.
  bool Update(int64_t iteration, std::span<const TestReport> reports);

  // Rounds since the best one, or since ResetWait.
  int waited() const { return waited_; }
  // Returns true after `patience` rounds that were no better.
  bool OutOfPatience() const { return waited_ >= rule_.patience(); }
  void ResetWait() { waited_ = 0; }

  std::optional<double> best() const { return best_; }
  int64_t best_iteration() const { return best_iteration_; }
  // Returns the compared metric: "test#0:accuracy" or "test#0:loss".
  std::string metric() const;

  void Save(SolverState* state) const;
  void Restore(const SolverState& state);

 private:
  void ChooseMetric(std::span<const Plan* const> tests);
  void FindBlob(const Plan& plan);
  double ValueOf(std::span<const TestReport> reports) const;

  std::string field_;
  MetricRule rule_;
  size_t net_ = 0;
  std::string blob_;  // empty: the total loss of the test
  bool smaller_is_better_ = false;
  std::optional<double> best_;
  int64_t best_iteration_ = 0;
  int waited_ = 0;
};

}  // namespace crema
