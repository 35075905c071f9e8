// Outputs that lie in memory of their layer, which moves from one forward pass to the next.
#include <algorithm>
#include <utility>

#include "runtime/session.h"

namespace crema {

// Which layers must be bound anew when such memory has moved.
void Session::FindBufferReaders() {
  external_buffers_.assign(plan_->values.size(), nullptr);
  buffer_readers_.resize(plan_->values.size());
  for (size_t i = 0; i < plan_->layers.size(); ++i) {
    const auto note = [&](int v) {
      const int buffer_owner = plan_->values[static_cast<size_t>(v)].data.buffer_owner;
      if (buffer_owner < 0) return;
      std::vector<size_t>& layers = buffer_readers_[static_cast<size_t>(buffer_owner)];
      if (layers.empty() || layers.back() != i) layers.push_back(i);
    };
    std::ranges::for_each(plan_->layers[i].inputs, note);
    std::ranges::for_each(plan_->layers[i].outputs, note);
  }
}

void Session::TakeExternalBuffers(size_t index) {
  Step& step = steps_[index];
  if (step.external.empty()) return;
  const PlannedLayer& layer = plan_->layers[index];
  for (size_t o = 0; o < layer.outputs.size(); ++o) {
    if (step.external[o] == nullptr) continue;
    const auto v = static_cast<size_t>(layer.outputs[o]);
    external_buffers_[v] = std::exchange(step.external[o], nullptr);
    for (const size_t reader : buffer_readers_[v]) Rebind(reader);
  }
}

// Extents stay: Refit finds by them what has changed.
void Session::Rebind(size_t index) {
  const PlannedLayer& layer = plan_->layers[index];
  Step& step = steps_[index];
  const auto external_slot = [&](int v) -> const ArenaSlot* {
    const ArenaSlot& slot = plan_->values[static_cast<size_t>(v)].data;
    return slot.buffer_owner < 0 ? nullptr : &slot;
  };
  for (size_t i = 0; i < layer.inputs.size(); ++i) {
    ConstTensorView& view = step.forward_inputs[i];
    if (const ArenaSlot* slot = external_slot(layer.inputs[i])) {
      view = ViewOf(*slot, {view.shape(), view.dtype()});
    }
  }
  for (size_t o = 0; o < layer.outputs.size(); ++o) {
    TensorView& view = step.forward_outputs[o];
    if (const ArenaSlot* slot = external_slot(layer.outputs[o])) {
      view = ViewOf(*slot, {view.shape(), view.dtype()});
    }
  }
  step.again_epoch = kUnbound;
  step.backward_epoch = kUnbound;
}

}  // namespace crema
