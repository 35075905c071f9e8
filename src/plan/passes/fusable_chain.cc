#include "plan/passes/fusable_chain.h"

#include <algorithm>

namespace crema {
namespace {

const Value& ValueAt(const Graph& graph, int v) { return graph.values[static_cast<size_t>(v)]; }

// Returns the sole consumer of the output of node n, if it has one output of the same shape, a
// backward pass if node `first` has one, and other inputs produced before that node; else -1.
int NextOf(const Graph& graph, const std::vector<LayerInfo>& infos, const GradientFlow& flow,
           size_t n, size_t first) {
  if (graph.nodes[n].outputs.size() != 1) return -1;
  const int v = graph.nodes[n].outputs[0];
  const Value& value = ValueAt(graph, v);
  if (value.readers.size() != 1 || value.loss_weight != 0) return -1;
  const int next = value.readers[0];
  const Node& reader = graph.nodes[static_cast<size_t>(next)];
  const LayerInfo& info = infos[static_cast<size_t>(next)];
  if (reader.outputs.size() != 1 || info.dynamic_outputs) return -1;
  if (info.outputs[0].shape != infos[n].outputs[0].shape) return -1;
  if (flow.nodes[static_cast<size_t>(next)].backward != flow.nodes[first].backward) return -1;
  const bool there = std::ranges::all_of(reader.inputs, [&](int input) {
    return input == v || ValueAt(graph, input).producer < static_cast<int>(first);
  });
  return there ? next : -1;
}

}  // namespace

std::vector<size_t> FusableChain(const Implementation& implementation, const OpDesc& query,
                                 const Graph& graph, const std::vector<LayerInfo>& infos,
                                 const GradientFlow& flow, size_t n, const PlanOptions& options) {
  std::vector<size_t> followers;
  std::vector<const Layer*> layers;
  size_t last = n;
  while (true) {
    const int next = NextOf(graph, infos, flow, last, n);
    if (next < 0 || IsPinned(*graph.nodes[static_cast<size_t>(next)].layer, options)) break;
    last = static_cast<size_t>(next);
    layers.push_back(graph.nodes[last].layer.get());
    OpDesc longer = query;
    longer.fused = layers;
    if (!implementation.CanFuse(longer)) break;
    followers.push_back(last);
  }
  return followers;
}

}  // namespace crema
