#include "inference/plan_cache.h"

#include <algorithm>
#include <utility>

namespace crema {

PlanCache::PlanCache(size_t most, Make make)
    : most_(std::max<size_t>(most, 1)), make_(std::move(make)) {}

std::shared_ptr<const Plan> PlanCache::Find(std::span<const Shape> inputs) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(
      entries_, [&](const Entry& entry) { return std::ranges::equal(entry.inputs, inputs); });
  if (found == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found);
  return entries_.front().plan;
}

std::shared_ptr<const Plan> PlanCache::Get(std::span<const Shape> inputs) {
  if (auto plan = Find(inputs)) return plan;
  const std::lock_guard making(making_);
  if (auto plan = Find(inputs)) return plan;  // another thread was faster
  std::shared_ptr<const Plan> plan = make_(inputs);
  const std::lock_guard lock(mutex_);
  entries_.push_front({{inputs.begin(), inputs.end()}, plan});
  if (entries_.size() > most_) entries_.pop_back();
  return plan;
}

}  // namespace crema
