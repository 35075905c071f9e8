// Dynamic loss scaling: FP16 ends at 65504 and loses what is below 6e-8, where many gradients lie.
// A factor on the loss moves them all up; it is divided out of the update. [Micikevicius et al.
// 2018, "Mixed precision training", section 3.2]
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/error.h"
#include "crema.pb.h"
#include "plan/plan.h"
#include "solvers/device_run.h"

namespace crema {

// As large as gradients stay finite: halved where they do not, doubled after `growth_interval`
// updates in which they did. Always a power of 2 times `initial`. Thread safety: one thread.
class LossScale {
 public:
  // Requires: CheckLossScale has nothing to say.
  explicit LossScale(const LossScaleParameter& param);

  double scale() const { return state_.scale; }
  int64_t skipped() const { return state_.skipped; }  // updates, in the whole run
  int64_t growth_interval() const { return growth_interval_; }
  // Where a GPU judges, this follows.
  const ScaleState& state() const { return state_; }
  void Follow(const ScaleState& state) { state_ = state; }

  // Of the gradients at this scale. False: the update is to be skipped, and the scale is lower now.
  bool Judge(bool finite);
  // Gradients that are not finite at such a scale are none of the scale's business.
  bool IsSpent() const;

  void Save(SolverState* state) const;
  // States without one (of runs in other precisions) leave it at its start. Throws kDataLoss.
  void Restore(const SolverState& state, const std::string& path);

 private:
  int growth_interval_;
  ScaleState state_;
};

// Problems with the field loss_scale; where.field names the field.
std::vector<Problem> CheckLossScale(const SolverParameter& param);

// Whether gradients of this net are scaled: the solver says so, or a blob is stored as FP16. Throws
// kUnsupported where a layer changes what it learns by a rule of its own.
bool WantsLossScale(const SolverParameter& param, const Plan& plan);

}  // namespace crema
