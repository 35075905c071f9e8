// Order of the modules of a net: those directly before each.
#pragma once

#include <set>
#include <vector>

#include "plan/plan.h"
#include "runtime/torch_modules.h"

namespace crema {

// Thread safety: const.
class TorchGraph {
 public:
  TorchGraph() = default;
  TorchGraph(const Plan& plan, const std::vector<TorchModule>& modules);
  // Returns the modules whose output reaches this one through layers without parameters alone.
  const std::set<int>& before(size_t module) const { return before_[module]; }

 private:
  std::vector<std::set<int>> before_;
};

}  // namespace crema
