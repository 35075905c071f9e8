// What rows make of fixed weights is the same in all sessions over them.
#include <vector>

#include "core/strings.h"
#include "runtime/session.h"

namespace crema {
namespace {

// What the values were made of, and by which row.
std::string KeyOf(const Plan& plan, const PlannedLayer& layer, const Kernel& row) {
  std::string key = StrCat(layer.name(), "\n", row.name);
  for (const int other : layer.absorbs) {
    key += StrCat("\n", plan.layers[static_cast<size_t>(other)].name());
  }
  return key;
}

}  // namespace

void Session::ShareKept(KeptPool* pool) {
  CREMA_CHECK(weights_fixed_);
  ForgetGraphs();
  for (size_t i = 0; i < steps_.size(); ++i) {
    auto* state = dynamic_cast<SharesWeights*>(steps_[i].kernel_state.get());
    if (state != nullptr) pool->Share(KeyOf(*plan_, plan_->layers[i], *steps_[i].kernel), state);
  }
}

}  // namespace crema
