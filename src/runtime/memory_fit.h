// What a plan takes of the memory of a device, and which batch would fit.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/error.h"
#include "plan/plan.h"

namespace crema {

// Bytes that a session of this plan allocates on a GPU: values, scratch, weights with what rows
// make of them in the first pass, gradients.
int64_t SessionBytes(const Plan& plan);

// Of weights that an optimiser changes, and of all, without those that are shared twice.
int64_t GradientBytes(const Plan& plan);
int64_t WeightBytes(const Plan& plan);

// A net whose session found no room.
struct MemoryShortage {
  const Plan& plan;
  std::string what;       // "training"
  int64_t others = 0;     // bytes that are needed besides its session, whatever its batch
  std::string of_others;  // what for
  int64_t free = 0;       // before anything was allocated
  int64_t batch = 0;      // samples of the plan
  // The same net with another batch size; may throw.
  std::function<std::shared_ptr<const Plan>(int64_t batch)> plan_of;
};

// kOutOfMemory: `cause`, what was needed and what for, the layer in whose pass most is live, what
// was free, and the largest smaller batch that fits. Plans the net some times.
Error ExplainShortage(const Error& cause, const MemoryShortage& shortage);

}  // namespace crema
