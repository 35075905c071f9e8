// The device memory that a plan needs, and the batch that would fit.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/error.h"
#include "plan/plan.h"

namespace crema {

// Returns the bytes that a session of this plan allocates on a GPU: values, scratch, weights with
// their packed forms from the first pass, gradients.
int64_t SessionBytes(const Plan& plan);

// Return the bytes of the parameters that a solver changes, and of all; shared ones count once.
int64_t GradientBytes(const Plan& plan);
int64_t WeightBytes(const Plan& plan);

// A net whose session did not fit.
struct MemoryShortage {
  const Plan& plan;
  std::string what;       // "training"
  int64_t others = 0;     // bytes that are needed besides its session, for any batch
  std::string of_others;  // their purpose
  int64_t free = 0;       // before any allocation
  int64_t batch = 0;      // samples of the plan
  // Plans the same net with another batch size; may throw.
  std::function<std::shared_ptr<const Plan>(int64_t batch)> plan_of;
};

// Returns kOutOfMemory: `cause`, the needed bytes and their purpose, the layer in whose pass most
// is live, the free bytes, and the largest smaller batch that fits. Plans the net several times.
Error ExplainShortage(const Error& cause, const MemoryShortage& shortage);

}  // namespace crema
