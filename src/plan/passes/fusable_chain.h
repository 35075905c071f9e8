// Chains of layers that an implementation fuses, in a graph whose formats are not chosen yet and in
// a plan.
#pragma once

#include <algorithm>
#include <vector>

#include "plan/plan.h"

namespace crema {

// A layer of a graph or of a plan. Refers to its parts.
struct ChainLayer {
  const Layer& layer;
  const LayerInfo& info;
  const std::vector<int>& inputs;   // values
  const std::vector<int>& outputs;  // values
  bool backward;
  const std::vector<bool>& to_input;
  bool recompute;
};

// Returns true if layer `next`, which reads `value`, may be fused into layer `first`: it gives one
// output of the same kind, and its other inputs are available when layer `first` runs.
template <typename Net>
bool CanFollow(const Net& net, int first, int next, int value, const PlanOptions& options) {
  const ChainLayer leader = net.LayerAt(first), follower = net.LayerAt(next);
  if (follower.outputs.size() != 1 || follower.info.dynamic_outputs) return false;
  if (IsPinned(follower.layer, options)) return false;
  // Forward and backward of both come together.
  if (follower.backward != leader.backward) return false;
  const BlobSpec from = net.SpecOf(value), to = net.SpecOf(follower.outputs[0]);
  if (from.shape != to.shape || from.dtype != to.dtype || from.format != to.format) return false;
  for (size_t i = 0; i < follower.inputs.size(); ++i) {
    const int input = follower.inputs[i];
    if (input == value) {
      if (follower.backward && !follower.to_input[i]) return false;
      continue;
    }
    const BlobSpec spec = net.SpecOf(input);
    if (net.ProducerOf(input) >= first || spec.format != from.format || spec.shape != from.shape) {
      return false;
    }
  }
  return true;
}

// Returns the chain of layers after layer `n` that this implementation fuses
// (Implementation::CanFuse), each the sole consumer of the one before it. Pinned layers are never
// included. A layer that saves tensors fuses none that run again. `query` describes layer `n`
// without fused layers. `refused`: the layer at which the implementation ends the chain; -1: none.
// `net` has LayerAt(layer), SpecOf(value), ProducerOf(value) and SoleConsumer(value), which is -1
// if there is none.
template <typename Net>
std::vector<int> FusableChain(const Net& net, int n, const Implementation& implementation,
                              OpDesc query, const PlanOptions& options, int* refused = nullptr) {
  std::vector<int> chain;
  if (net.LayerAt(n).outputs.size() != 1) return chain;
  std::vector<const Layer*> layers;
  int value = net.LayerAt(n).outputs[0];
  while (true) {
    const int next = net.SoleConsumer(value);
    if (next < 0 || !CanFollow(net, n, next, value, options)) return chain;
    const bool again = net.LayerAt(n).recompute || net.LayerAt(next).recompute;
    if (again && !implementation.Info(query).saved.empty()) return chain;
    layers.push_back(&net.LayerAt(next).layer);
    query.fused = layers;
    if (!implementation.CanFuse(query)) {
      if (refused != nullptr) *refused = next;
      return chain;
    }
    chain.push_back(next);
    value = net.LayerAt(next).outputs[0];
  }
}

}  // namespace crema
