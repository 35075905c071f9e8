#include "runtime/packed_weight_cache.h"

namespace crema {

void PackedWeightCache::Share(const std::string& key, HasPackedWeights* state) {
  const std::lock_guard lock(mutex_);
  auto& candidates = packed_[key];
  std::erase_if(candidates, [](const auto& candidate) { return candidate.expired(); });
  const SharedPackedWeights own = state->ExportPacked();
  for (const auto& candidate : candidates) {
    const SharedPackedWeights kept = candidate.lock();
    if (kept != nullptr && (kept == own || state->ImportPacked(kept))) return;
  }
  if (own != nullptr) candidates.push_back(own);
}

}  // namespace crema
