#include "plan/passes/fuse.h"

#include <algorithm>
#include <string>

#include "core/strings.h"
#include "plan/layer_query.h"
#include "plan/plan_readers.h"

namespace crema {
namespace {

class Fuser {
 public:
  explicit Fuser(Plan* plan) : plan_(*plan), readers_(*plan) {}

  void Run() {
    for (size_t n = 0; n < plan_.layers.size(); ++n) {
      const PlannedLayer& layer = plan_.layers[n];
      if (layer.fused_into >= 0 || layer.implementation == nullptr) continue;
      if (layer.outputs.size() == 1) Collect(static_cast<int>(n));
    }
    BookTotals(&plan_);
  }

 private:
  static size_t Index(int i) { return static_cast<size_t>(i); }

  void Collect(int n) {
    PlannedLayer& layer = plan_.layers[Index(n)];
    int v = layer.outputs[0];
    while (true) {
      const int next = readers_.SoleConsumer(v);
      if (next < 0 || !CanFollow(n, next, v)) break;
      layer.fused_layers.push_back(plan_.layers[Index(next)].layer.get());
      if (!Ask(&layer)) {
        KeepReason(plan_.layers[Index(next)].name(), &layer);
        layer.fused_layers.pop_back();
        break;
      }
      layer.fused.push_back(next);
      v = plan_.layers[Index(next)].outputs[0];
    }
    if (layer.fused.empty()) return;
    for (int next : layer.fused) Fuse(n, next);
    UpdateRequirements(plan_, &layer);
  }

  // It gives one output of the same kind, and its other inputs are there when layer n runs.
  bool CanFollow(int n, int next, int v) const {
    const PlannedLayer& follower = plan_.layers[Index(next)];
    if (follower.outputs.size() != 1 || follower.info.dynamic_outputs) return false;
    if (IsPinned(*follower.layer, plan_.options)) return false;
    // Forward and backward of both come together.
    const PlannedLayer& layer = plan_.layers[Index(n)];
    if (follower.backward != layer.backward) return false;
    // A layer that saves tensors runs again by itself.
    if ((layer.recompute || follower.recompute) && !layer.info.saved.empty()) return false;
    if (follower.backward && !follower.to_input[PlaceOf(v, follower)]) return false;
    const BlobSpec& from = plan_.values[Index(v)].spec;
    const BlobSpec& to = plan_.values[Index(follower.outputs[0])].spec;
    if (from.shape != to.shape || from.dtype != to.dtype || from.format != to.format) return false;
    return std::ranges::all_of(follower.inputs, [&](int input) {
      const PlannedValue& value = plan_.values[Index(input)];
      return input == v || (value.producer < n && value.spec.format == from.format &&
                            value.spec.shape == from.shape);
    });
  }

  static size_t PlaceOf(int v, const PlannedLayer& reader) {
    return static_cast<size_t>(std::ranges::find(reader.inputs, v) - reader.inputs.begin());
  }

  bool Ask(PlannedLayer* layer) const {
    return WithQuery(plan_, *layer, 0,
                     [&](const OpDesc& query) { return layer->implementation->CanFuse(query); });
  }

  // Where an implementation of a GPU says why not, being asked with what it would fuse. Those of
  // the CPU cannot be asked about what they never do.
  void KeepReason(const std::string& follower, PlannedLayer* layer) const {
    const Implementation& implementation = *layer->implementation;
    if (implementation.device != DeviceType::kCuda) return;
    const Support support = WithQuery(
        plan_, *layer, 0, [&](const OpDesc& query) { return implementation.Supports(query); });
    if (support.reason.empty()) return;
    layer->skipped.push_back({StrCat(implementation.name, " with ", follower), support.reason});
  }

  void Fuse(int n, int next) {
    PlannedLayer& layer = plan_.layers[Index(n)];
    PlannedLayer& follower = plan_.layers[Index(next)];
    const int v = InputBehind(n, follower);
    for (size_t i = 0; i < follower.inputs.size(); ++i) {
      if (follower.inputs[i] == v) continue;
      layer.inputs.push_back(follower.inputs[i]);
      layer.to_input.push_back(follower.to_input[i]);
      ++layer.extra_inputs;
    }
    follower.to_input = {follower.to_input[PlaceOf(v, follower)]};
    follower.inputs = {v};
    follower.fused_into = n;
    // If one of them keeps its output, that of all is kept.
    layer.recompute = layer.recompute && follower.recompute;
    follower.recompute = false;
    follower.info.view = true;
    follower.info.saved.clear();
    follower.info.backward_reads_input.clear();
    follower.info.backward_reads_output.clear();
    follower.implementation = nullptr;
    follower.forward_scratch = 0;
    follower.backward_scratch = 0;
    follower.state_bytes = 0;
  }

  // The input of a follower that layer n or one that it fused makes.
  int InputBehind(int n, const PlannedLayer& follower) const {
    for (int input : follower.inputs) {
      const int producer = plan_.values[Index(input)].producer;
      if (producer == n || plan_.layers[Index(producer)].fused_into == n) return input;
    }
    CREMA_CHECK(false);
    return -1;
  }

  Plan& plan_;
  const PlanReaders readers_;
};

}  // namespace

void FuseFollowers(Plan* plan) {
  if (!plan->options.passes.fuse) return;
  Fuser(plan).Run();
}

}  // namespace crema
