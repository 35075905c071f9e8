#include "plan/passes/fuse.h"

#include <vector>

#include "core/strings.h"
#include "plan/layer_query.h"
#include "plan/passes/fusable_chain.h"
#include "plan/plan_readers.h"

namespace crema {
namespace {

class Fuser {
 public:
  explicit Fuser(Plan* plan) : plan_(*plan), readers_(*plan) {}

  void Run() {
    for (size_t n = 0; n < plan_.layers.size(); ++n) {
      const PlannedLayer& layer = plan_.layers[n];
      if (layer.fusion.leader < 0 && layer.implementation != nullptr) Collect(static_cast<int>(n));
    }
  }

  // For FusableChain.
  ChainLayer LayerAt(int n) const {
    const PlannedLayer& layer = plan_.layers[Index(n)];
    return {.layer = *layer.layer,
            .info = layer.info,
            .inputs = layer.inputs,
            .outputs = layer.outputs,
            .backward = layer.backward,
            .to_input = layer.to_input,
            .recompute = layer.recompute};
  }
  const BlobSpec& SpecOf(int v) const { return plan_.values[Index(v)].spec; }
  int ProducerOf(int v) const { return plan_.values[Index(v)].producer; }
  int SoleConsumer(int v) const { return readers_.SoleConsumer(v); }

 private:
  static size_t Index(int i) { return static_cast<size_t>(i); }

  void Collect(int n) {
    PlannedLayer& layer = plan_.layers[Index(n)];
    int refused = -1;
    const std::vector<int> chain = WithQuery(plan_, layer, 0, [&](const OpDesc& query) {
      return FusableChain(*this, n, *layer.implementation, query, plan_.options, &refused);
    });
    for (int next : chain) {
      layer.fusion.followers.push_back(next);
      layer.fusion.layers.push_back(plan_.layers[Index(next)].layer.get());
    }
    if (refused >= 0) KeepReason(*plan_.layers[Index(refused)].layer, &layer);
    if (chain.empty()) return;
    int v = layer.outputs[0];
    for (int next : chain) v = Fuse(n, next, v);
    UpdateRequirements(plan_, &layer);
  }

  // GPU implementations give the reason if queried with the layer to fuse. CPU implementations do
  // not support queries about layers that they never fuse.
  void KeepReason(const Layer& follower, PlannedLayer* layer) const {
    const Implementation& implementation = *layer->implementation;
    if (implementation.device != DeviceType::kCuda) return;
    layer->fusion.layers.push_back(&follower);
    const Support support = WithQuery(
        plan_, *layer, 0, [&](const OpDesc& query) { return implementation.Supports(query); });
    layer->fusion.layers.pop_back();
    if (support.reason.empty()) return;
    layer->skipped.push_back(
        {StrCat(implementation.name, " with ", follower.param().name()), support.reason});
  }

  // Fuses `next`, which reads `v`, into layer `n`. Returns the output of `next`.
  int Fuse(int n, int next, int v) {
    PlannedLayer& layer = plan_.layers[Index(n)];
    PlannedLayer& follower = plan_.layers[Index(next)];
    bool to_input = false;
    for (size_t i = 0; i < follower.inputs.size(); ++i) {
      if (follower.inputs[i] == v) {
        to_input = follower.to_input[i];
        continue;
      }
      layer.inputs.push_back(follower.inputs[i]);
      layer.to_input.push_back(follower.to_input[i]);
      ++layer.fusion.extra_inputs;
    }
    follower.to_input = {to_input};
    follower.inputs = {v};
    follower.fusion.leader = n;
    // If one of them keeps its output, all do.
    layer.recompute = layer.recompute && follower.recompute;
    follower.recompute = false;
    follower.info.view = true;
    follower.info.saved.clear();
    follower.info.backward_reads_input.clear();
    follower.info.backward_reads_output.clear();
    follower.implementation = nullptr;
    follower.needs = {};
    return follower.outputs[0];
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
