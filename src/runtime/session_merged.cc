// Layers that are computed at once (graph/merge_siblings.h), each alone for other extents.
#include "runtime/session.h"

namespace crema {

bool Session::IsMerged(const PlannedLayer& layer) const {
  if (layer.merged_into >= 0) {
    return IsMerged(plan_->layers[static_cast<size_t>(layer.merged_into)]);
  }
  if (layer.merged.empty()) return false;
  const auto input = static_cast<size_t>(layer.inputs[0]);
  return shapes_[input] == plan_->values[input].spec.shape;
}

// Its output is then that of all, and what is learned too.
void Session::BindMerged(const PlannedLayer& layer, Step* step) {
  const bool merged = IsMerged(layer);
  step->computed = merged && layer.merged_into >= 0;
  if (!merged || step->computed) return;
  int64_t channels = 0;
  step->learned.clear();
  for (int n : layer.merged) {
    const PlannedLayer& sibling = plan_->layers[static_cast<size_t>(n)];
    channels += sibling.info.outputs[0].shape[1];
    AddLearned(sibling, step);
    for (int absorbed : sibling.absorbs) {
      AddLearned(plan_->layers[static_cast<size_t>(absorbed)], step);
    }
  }
  const int first = plan_->layers[static_cast<size_t>(layer.merged[0])].outputs[0];
  const PlannedValue& value = plan_->values[static_cast<size_t>(first)];
  BlobSpec spec = value.spec;
  spec.shape = spec.shape.With(1, channels);
  step->forward_outputs[0] = ViewOf(value.data, spec);
}

void Session::AddLearned(const PlannedLayer& layer, Step* step) const {
  for (int slot : layer.learned) step->learned.push_back(LearnedBlob(static_cast<size_t>(slot)));
}

}  // namespace crema
