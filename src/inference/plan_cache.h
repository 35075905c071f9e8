// Cache of plans by input shapes.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "plan/plan.h"

namespace crema {

// Thread safety: any number of threads. Makes one plan at a time; cached plans remain accessible
// meanwhile.
class PlanCache {
 public:
  using Make = std::function<std::shared_ptr<const Plan>(std::span<const Shape> inputs)>;

  // Keeps up to `most` plans and evicts the least recently used. Requires: most >= 1.
  PlanCache(size_t most, Make make);

  // Throws what making the plan throws, and caches nothing then.
  std::shared_ptr<const Plan> Get(std::span<const Shape> inputs);

 private:
  struct Entry {
    std::vector<Shape> inputs;
    std::shared_ptr<const Plan> plan;
  };

  std::shared_ptr<const Plan> Find(std::span<const Shape> inputs);

  const size_t most_;
  const Make make_;
  std::mutex making_;
  std::mutex mutex_;          // guards the member below
  std::list<Entry> entries_;  // most recently used first
};

}  // namespace crema
