// Outputs that lie in memory of their layer, which moves from one forward pass to the next.
#include <algorithm>
#include <utility>

#include "runtime/session.h"

namespace crema {

// Which layers must be bound anew when such memory has moved.
void Session::FindBorrowers() {
  lent_.assign(plan_->values.size(), nullptr);
  borrowers_.resize(plan_->values.size());
  for (size_t i = 0; i < plan_->layers.size(); ++i) {
    const auto note = [&](int v) {
      const int lender = plan_->values[static_cast<size_t>(v)].data.lender;
      if (lender < 0) return;
      std::vector<size_t>& layers = borrowers_[static_cast<size_t>(lender)];
      if (layers.empty() || layers.back() != i) layers.push_back(i);
    };
    std::ranges::for_each(plan_->layers[i].inputs, note);
    std::ranges::for_each(plan_->layers[i].outputs, note);
  }
}

void Session::TakeLent(size_t index) {
  Step& step = steps_[index];
  if (step.lent.empty()) return;
  const PlannedLayer& layer = plan_->layers[index];
  for (size_t o = 0; o < layer.outputs.size(); ++o) {
    if (step.lent[o] == nullptr) continue;
    const auto v = static_cast<size_t>(layer.outputs[o]);
    lent_[v] = std::exchange(step.lent[o], nullptr);
    for (const size_t borrower : borrowers_[v]) Readdress(borrower);
  }
}

// Extents stay: Refit finds by them what has changed.
void Session::Readdress(size_t index) {
  const PlannedLayer& layer = plan_->layers[index];
  Step& step = steps_[index];
  const auto lent_slot = [&](int v) -> const ArenaSlot* {
    const ArenaSlot& slot = plan_->values[static_cast<size_t>(v)].data;
    return slot.lender < 0 ? nullptr : &slot;
  };
  for (size_t i = 0; i < layer.inputs.size(); ++i) {
    ConstTensorView& view = step.forward_inputs[i];
    if (const ArenaSlot* slot = lent_slot(layer.inputs[i])) {
      view = ViewOf(*slot, {view.shape(), view.dtype()});
    }
  }
  for (size_t o = 0; o < layer.outputs.size(); ++o) {
    TensorView& view = step.forward_outputs[o];
    if (const ArenaSlot* slot = lent_slot(layer.outputs[o])) {
      view = ViewOf(*slot, {view.shape(), view.dtype()});
    }
  }
  step.again_epoch = kUnbound;
  step.backward_epoch = kUnbound;
}

}  // namespace crema
