// The learning rate of each iteration: lr_policy, warm-up, floor.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/error.h"
#include "crema.pb.h"
#include "plan/plan.h"
#include "solvers/metric_tracker.h"
#include "solvers/training_observer.h"

namespace crema {

// One policy, without warm-up, ramp-up and floor: those are the same for all.
// Thread safety: const.
struct LrPolicy {
  std::string name;
  std::vector<std::string> needs;       // fields that must be set
  std::vector<std::string> reads = {};  // fields that may be set
  // Requires: no problem of CheckLearningRate. `step` is current_step of the solver state.
  double (*rate)(const SolverParameter& param, int64_t iteration, int* step) = nullptr;
  bool reads_step = false;  // the rate depends on `step`, so on earlier iterations
  int (*most_steps)(const SolverParameter& param) = nullptr;  // null: no limit
};

// Returns all policies, in the order of listings.
std::span<const LrPolicy> LrPolicies();
// Returns null for an unknown name.
const LrPolicy* FindLrPolicy(const std::string& name);

// The schedule of one run, in double; docs/learning_rate.md has every formula. At the start the
// rate may rise to base_lr instead of following the policy, whose count of iterations includes
// these:
//   warmup_iter, as IntelCaffe      start + (base_lr - start) * iteration / warmup_iter
//   rampup_interval, as NVCaffe     start + (base_lr - start) * (iteration / rampup_interval)^2
// No rate is below min_lr if that is set. A copy continues independently. Thread safety: one
// thread.
class LearningRate {
 public:
  // Requires: CheckLearningRate found no problem, and max_iter is set if the policy needs it; with
  // max_epoch, to the number of iterations of the epochs.
  explicit LearningRate(const SolverParameter& param);

  // Returns the rate of this iteration. Advances current_step of `multistep` by at most one, as
  // Caffe does: call it once for each iteration, after ObserveLoss and ObserveTests.
  double At(int64_t iteration);

  // For `plateau` with plateau_winsize: the smoothed training loss of this iteration. Returns true
  // if the rate drops from this iteration on. Other policies ignore it.
  bool ObserveLoss(int64_t iteration, double smoothed_loss);
  // Returns true if the policy uses the loss.
  bool FollowsLoss() const { return param_.lr_policy() == "plateau" && !wants_metric(); }

  // `plateau` on a test: BindTests must be called before the first round of tests and before
  // Restore, ObserveTests after each round.
  bool wants_metric() const { return param_.lr_policy() == "plateau" && param_.has_plateau(); }
  // Takes the plans of all test nets, in order. Throws as MetricTracker does.
  void BindTests(std::span<const Plan* const> tests);
  // Takes the reports of all test nets, in order. Returns true if the rate drops from this
  // iteration on. Tests during warm-up do not count towards the patience. Other policies ignore it.
  bool ObserveTests(int64_t iteration, std::span<const TestReport> reports);

  void Save(SolverState* state) const;
  // Requires: current_step of the state is in 0..most_steps().
  void Restore(const SolverState& state);

  int current_step() const { return current_step_; }
  // Returns the largest current_step that the policy can reach.
  int most_steps() const;

 private:
  bool IsRising(int64_t iteration) const;

  SolverParameter param_;
  const LrPolicy* policy_;
  int current_step_ = 0;
  float minimum_loss_;      // plateau_winsize: float, as in the state
  int64_t last_event_ = 0;  // plateau_winsize: iteration of minimum_loss_ or of the last drop
  std::optional<MetricTracker> tests_;  // plateau on a test
};

// Returns the factor of momentum in rules whose history contains the rate (SGD, Nesterov): the rate
// over that of the previous iteration, during warmup_iter, as in IntelCaffe. Otherwise 1.
double WarmupMomentumFactor(const SolverParameter& param, int64_t iteration);

// Returns the problems of the policy's fields; where.field names the field of the solver. Empty:
// the schedule can be computed.
std::vector<Problem> CheckLearningRate(const SolverParameter& param);

// Returns warnings about probable mistakes, such as a warm-up longer than the run. Requires: no
// problem of CheckLearningRate.
std::vector<Problem> WarnAboutLearningRate(const SolverParameter& param);

// Checks that every rate of 0..max_iter is finite and not negative; of runs longer than 10^7
// iterations, that many samples. For `plateau` it checks all drops of plateau_winsize and none.
// Returns nothing if max_iter is not set. Requires: no problem of CheckLearningRate.
std::vector<Problem> CheckSchedule(const SolverParameter& param);

}  // namespace crema
