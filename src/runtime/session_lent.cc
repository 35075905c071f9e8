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
    const int v = layer.outputs[o];
    lent_[static_cast<size_t>(v)] = std::exchange(step.lent[o], nullptr);
    // The layer itself is not bound anew: what it says of its extents has to stay.
    TensorView& output = step.forward_outputs[o];
    output = ViewOf(plan_->values[static_cast<size_t>(v)].data, {output.shape(), output.dtype()});
    for (const size_t borrower : borrowers_[static_cast<size_t>(v)]) {
      if (borrower != index) BindForward(plan_->layers[borrower], &steps_[borrower]);
      steps_[borrower].again_epoch = kUnbound;
      steps_[borrower].backward_epoch = kUnbound;
    }
  }
}

}  // namespace crema
