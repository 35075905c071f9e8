// The formulas of lr_policy, one entry each.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "crema.pb.h"

namespace crema {

// One policy, without warm-up, ramp-up and floor: those are the same for all (learning_rate.h).
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

}  // namespace crema
