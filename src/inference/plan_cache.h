// Plans by the extents of inputs, a bounded number of them.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "plan/plan.h"

namespace crema {

// Thread safety: any number of threads. One plan is made at a time; those that are there can be had
// meanwhile.
class PlanCache {
 public:
  using Make = std::function<std::shared_ptr<const Plan>(std::span<const Shape> inputs)>;

  // Keeps `most` plans, of 1 or more, and forgets those that were not asked for the longest.
  PlanCache(size_t most, Make make);

  // Throws what making throws; nothing is kept then.
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
  std::mutex mutex_;          // of what follows
  std::list<Entry> entries_;  // the latest first
};

}  // namespace crema
