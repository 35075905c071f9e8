// A moving average of the weights of a run (ema_decay).
#pragma once

#include <cstdint>
#include <memory>

#include "core/exec_context.h"
#include "plan/plan.h"
#include "runtime/weights.h"

namespace crema {

// After each update: average += (1 - decay) * (weight - average). Statistics (running means) are
// copied: they are averages already. Thread safety: one thread.
class WeightAverage {
 public:
  // Allocates; the values are those of the fillers until Reset.
  WeightAverage(std::shared_ptr<const Plan> plan, double decay, uint64_t seed);

  // Starts from these weights.
  void Reset(const Weights& weights);
  void Update(const ExecContext& context, const Weights& weights);
  void CopyStatistics(const Weights& weights);

  float step() const { return step_; }  // 1 - decay
  Weights& weights() { return *average_; }
  const Weights& weights() const { return *average_; }

 private:
  std::shared_ptr<const Plan> plan_;
  float step_;  // 1 - decay
  std::shared_ptr<Weights> average_;
};

// Copies every blob. Both belong to the same plan.
void CopyWeights(const Plan& plan, const Weights& from, Weights* to);

}  // namespace crema
