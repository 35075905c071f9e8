// Layers of a plan that read its values.
#pragma once

#include <cstddef>
#include <vector>

#include "plan/plan.h"

namespace crema {

// Describes the plan as of construction.
class PlanReaders {
 public:
  explicit PlanReaders(const Plan& plan) : plan_(plan), readers_(plan.values.size()) {
    for (size_t n = 0; n < plan.layers.size(); ++n) {
      for (int v : plan.layers[n].inputs) {
        readers_[static_cast<size_t>(v)].push_back(static_cast<int>(n));
      }
    }
  }

  // Returns the sole consumer of that value. -1 means none, several, or a consumer outside the
  // plan.
  int SoleConsumer(int v) const {
    const std::vector<int>& readers = readers_[static_cast<size_t>(v)];
    const bool alone = readers.size() == 1 && plan_.values[static_cast<size_t>(v)].loss_weight == 0;
    return alone ? readers[0] : -1;
  }

 private:
  const Plan& plan_;
  std::vector<std::vector<int>> readers_;  // indexed by value
};

}  // namespace crema
