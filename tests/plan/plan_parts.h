// Parts of plans, for tests of planning.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "graph/registry.h"
#include "plan/plan.h"
#include "support/net.h"

namespace crema::test {

constexpr Device kGpu{DeviceType::kCuda, 0};

inline const PlannedLayer& LayerOf(const Plan& plan, const std::string& name) {
  for (const PlannedLayer& layer : plan.layers) {
    if (layer.name() == name) return layer;
  }
  throw std::out_of_range(name);
}

// Returns true if this build and this processor have convolutions in blocked formats.
inline bool HasBlockedConvolution() {
  const std::vector<ImplementationPtr>& implementations =
      TestRegistry().Find("Convolution")->implementations;
  return ChannelBlock() != 0 && std::ranges::find(implementations, "onednn",
                                                  &Implementation::name) != implementations.end();
}

}  // namespace crema::test
