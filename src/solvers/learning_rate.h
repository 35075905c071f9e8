// lr_policy: the learning rate as a function of the iteration.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/error.h"
#include "crema.pb.h"

namespace crema {

// fixed     base_lr
// step      base_lr * gamma ^ floor(iter / stepsize)
// exp       base_lr * gamma ^ iter
// inv       base_lr * (1 + gamma * iter) ^ (-power)
// multistep base_lr * gamma ^ (number of stepvalues reached; at most one more an iteration)
// poly      base_lr * (1 - iter / max_iter) ^ power
// sigmoid   base_lr / (1 + exp(-gamma * (iter - stepsize)))
// Thread safety: one thread.
class LearningRate {
 public:
  // Requires: CheckLearningRate found no problem.
  explicit LearningRate(const SolverParameter& param) : param_(param) {}

  // The rate of this iteration. Advances current_step of `multistep` by at most one, as Caffe does.
  double At(int64_t iteration);

  int current_step() const { return current_step_; }
  void set_current_step(int step) { current_step_ = step; }

 private:
  SolverParameter param_;
  int current_step_ = 0;
};

// What is wrong with the fields of the policy; where.field names the field of the solver.
std::vector<Problem> CheckLearningRate(const SolverParameter& param);

}  // namespace crema
