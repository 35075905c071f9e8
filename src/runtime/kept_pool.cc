#include "runtime/kept_pool.h"

namespace crema {

void KeptPool::Share(const std::string& key, SharesWeights* state) {
  const std::lock_guard lock(mutex_);
  auto& candidates = kept_[key];
  std::erase_if(candidates, [](const auto& candidate) { return candidate.expired(); });
  const SharedKeptWeights own = state->Kept();
  for (const auto& candidate : candidates) {
    const SharedKeptWeights kept = candidate.lock();
    if (kept != nullptr && (kept == own || state->TakeKept(kept))) return;
  }
  if (own != nullptr) candidates.push_back(own);
}

}  // namespace crema
