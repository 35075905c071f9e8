// See DropIdentities in passes.h.
#include "examples/drop_identities.h"

#include <algorithm>

#include "crema.pb.h"
#include "graph/passes/passes.h"

namespace crema {
namespace {

bool IsIdentity(const Node& node, const Graph& graph) {
  const LayerParameter& param = node.layer->param();
  if (param.type() != "Power" || param.has_precision() || param.has_int8()) return false;
  const PowerParameter& power = param.power_param();
  if (power.power() != 1 || power.scale() != 1 || power.shift() != 0) return false;
  const Value& output = graph.values[static_cast<size_t>(node.outputs[0])];
  return !output.readers.empty() && output.loss_weight == 0;  // an output of the net stays
}

}  // namespace

void DropIdentities(const std::map<std::string, std::string>& pinned, Graph* graph) {
  std::vector<Node> nodes;
  for (const Node& node : graph->nodes) {
    if (!IsIdentity(node, *graph) || pinned.contains(node.name())) {
      nodes.push_back(node);
      continue;
    }
    // Nodes are in running order: readers come later.
    for (int reader : graph->values[static_cast<size_t>(node.outputs[0])].readers) {
      std::vector<int>& inputs = graph->nodes[static_cast<size_t>(reader)].inputs;
      std::ranges::replace(inputs, node.outputs[0], node.inputs[0]);
    }
  }
  graph->nodes = std::move(nodes);
  graph->Reindex();
}

}  // namespace crema
