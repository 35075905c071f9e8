// Dynamic loss scaling: FP16 ends at 65504 and underflows below 6e-8, where many gradients lie. A
// factor on the loss scales all gradients; the update divides by it. [Micikevicius et al. 2018,
// "Mixed precision training", section 3.2]
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/error.h"
#include "crema.pb.h"
#include "plan/plan.h"
#include "solvers/device_run.h"

namespace crema {

// As large as gradients stay finite: halved when they do not, doubled after `growth_interval`
// updates in which they did. Always a power of 2 times `initial`. Thread safety: one thread.
class LossScale {
 public:
  // Requires: CheckLossScale returns no problem.
  explicit LossScale(const LossScaleParameter& param);

  double scale() const { return state_.scale; }
  int64_t skipped() const { return state_.skipped; }  // updates, in the whole run
  int64_t growth_interval() const { return growth_interval_; }
  // If a GPU judges, this follows its state.
  const ScaleState& state() const { return state_; }
  void Follow(const ScaleState& state) { state_ = state; }

  // Judges the gradients at this scale. Returns false if the update must be skipped; the scale is
  // then lower.
  bool Judge(bool finite);
  // Returns true below the smallest scale: the gradients are not finite for another reason.
  bool IsSpent() const;

  void Save(SolverState* state) const;
  // Keeps the initial scale if the state (of a run in another precision) has none. Throws
  // kDataLoss.
  void Restore(const SolverState& state, const std::string& path);

 private:
  int growth_interval_;
  ScaleState state_;
};

// Problems with the field loss_scale; where.field names the field.
std::vector<Problem> CheckLossScale(const SolverParameter& param);

// Returns true if gradients of this net are scaled: the solver requests it, or a blob is stored as
// FP16. Throws kUnsupported if a layer updates its parameters by its own rule.
bool WantsLossScale(const SolverParameter& param, const Plan& plan);

}  // namespace crema
