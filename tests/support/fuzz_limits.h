// Shared by the targets for libFuzzer. For tests/support/fuzz_targets*.cc.
#pragma once

#include <cstdint>
#include <string>

#include "core/error.h"
#include "plan/plan.h"

namespace crema::test {

// Larger nets are examined, but not run.
constexpr int64_t kMostRunBytes = 8 << 20;
constexpr int64_t kMostRunMacs = 10'000'000;

// The text of the Error that `body` ends with; empty when there is none.
template <typename Body>
std::string ErrorOf(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

// Returns true if a pass takes little time and memory, without parameters.
inline bool IsQuick(const Plan& plan) {
  int64_t macs = 0;
  for (const PlannedLayer& layer : plan.layers) {
    if (layer.info.macs > kMostRunMacs) return false;
    macs += layer.info.macs;
  }
  return macs <= kMostRunMacs && plan.arena_bytes <= kMostRunBytes &&
         plan.scratch_bytes <= kMostRunBytes;
}

}  // namespace crema::test
