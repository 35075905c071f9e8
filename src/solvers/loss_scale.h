// Dynamic loss scaling: FP16 ends at 65504 and loses what is below 6e-8, where many gradients lie.
// A factor on the loss moves them all up; it is divided out of the update. [Micikevicius et al.
// 2018, "Mixed precision training", section 3.2]
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/error.h"
#include "crema.pb.h"
#include "graph/plan.h"

namespace crema {

// As large as gradients stay finite: halved where they do not, doubled after `growth_interval`
// updates in which they did. Always a power of 2 times `initial`. Thread safety: one thread.
class LossScale {
 public:
  // Requires: CheckLossScale has nothing to say.
  explicit LossScale(const LossScaleParameter& param);

  double scale() const { return scale_; }
  int64_t skipped() const { return skipped_; }  // updates, in the whole run

  // Of the gradients at this scale. False: the update is to be skipped, and the scale is lower now.
  bool Judge(bool finite);
  // Gradients that are not finite at such a scale are none of the scale's business.
  bool IsSpent() const;

  void Save(SolverState* state) const;
  // States without one (of runs in other precisions) leave it at its start. Throws kDataLoss.
  void Restore(const SolverState& state, const std::string& path);

 private:
  int growth_interval_;
  double scale_;
  int good_ = 0;
  int64_t skipped_ = 0;
};

// Problems with the field loss_scale; where.field names the field.
std::vector<Problem> CheckLossScale(const SolverParameter& param);

// Whether gradients of this net are scaled: the solver says so, or a blob is stored as FP16. Throws
// kUnsupported where a layer changes what it learns by a rule of its own.
bool WantsLossScale(const SolverParameter& param, const Plan& plan);

}  // namespace crema
