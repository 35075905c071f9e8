// What implementations make of fixed weights is the same in all sessions over them.
#include <vector>

#include "core/strings.h"
#include "runtime/session.h"

namespace crema {
namespace {

// What the values were made of, and by which implementation.
std::string KeyOf(const Plan& plan, const PlannedLayer& layer,
                  const Implementation& implementation) {
  std::string key = StrCat(layer.name(), "\n", implementation.name);
  for (const int other : layer.fused) {
    key += StrCat("\n", plan.layers[static_cast<size_t>(other)].name());
  }
  return key;
}

}  // namespace

void Session::SharePacked(PackedWeightCache* pool) {
  CREMA_CHECK(weights_fixed_);
  ForgetGraphs();
  for (size_t i = 0; i < steps_.size(); ++i) {
    auto* state = dynamic_cast<HasPackedWeights*>(steps_[i].implementation_state.get());
    if (state != nullptr)
      pool->Share(KeyOf(*plan_, plan_->layers[i], *steps_[i].implementation), state);
  }
}

}  // namespace crema
