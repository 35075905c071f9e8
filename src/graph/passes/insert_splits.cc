// See InsertSplits in passes.h.
#include <utility>

#include "core/strings.h"
#include "crema.pb.h"
#include "graph/passes/passes.h"

namespace crema {
namespace {

struct Splitter {
  Graph* graph;
  const Registry& registry;

  // Adds the Split node of value `v` after its producer, and points each reader at its own output.
  Node MakeSplit(int v, bool weighted) {
    const Value value = graph->values[static_cast<size_t>(v)];
    const std::string& producer = graph->nodes[static_cast<size_t>(value.producer)].name();
    LayerParameter param;
    param.set_type("Split");
    param.set_name(StrCat(value.name, "_", producer, "_", value.output, "_split"));
    param.set_phase(graph->state.phase());
    param.add_bottom(value.name);

    Node node;
    node.inputs = {v};
    const size_t uses = value.readers.size() + (weighted ? 1 : 0);
    for (size_t use = 0; use < uses; ++use) {
      const std::string top = StrCat(param.name(), "_", use);
      param.add_top(top);
      node.outputs.push_back(static_cast<int>(graph->values.size()));
      graph->values.push_back({top, -1, static_cast<int>(use), {}, 0});
    }
    if (weighted) {
      graph->values[static_cast<size_t>(node.outputs[0])].loss_weight = value.loss_weight;
      graph->values[static_cast<size_t>(v)].loss_weight = 0;
    }
    node.type = registry.Find("Split");
    CREMA_CHECK(node.type != nullptr);
    node.layer = node.type->make(param);
    RedirectReaders(value, v, node, weighted ? 1 : 0);
    return node;
  }

  void RedirectReaders(const Value& value, int v, const Node& split, size_t use) {
    for (size_t r = 0; r < value.readers.size(); ++r) {
      if (r > 0 && value.readers[r] == value.readers[r - 1]) continue;  // reads it twice
      for (int& input : graph->nodes[static_cast<size_t>(value.readers[r])].inputs) {
        if (input == v) input = split.outputs[use++];
      }
    }
  }
};

}  // namespace

void InsertSplits(Graph* graph, const Registry& registry) {
  Splitter splitter{graph, registry};
  std::vector<Node> nodes;
  const size_t count = graph->nodes.size();
  for (size_t n = 0; n < count; ++n) {
    std::vector<Node> splits;
    for (int v : graph->nodes[n].outputs) {
      const Value& value = graph->values[static_cast<size_t>(v)];
      const bool weighted = value.loss_weight != 0;
      if (value.readers.size() + (weighted ? 1 : 0) > 1) {
        splits.push_back(splitter.MakeSplit(v, weighted));
      }
    }
    nodes.push_back(graph->nodes[n]);
    for (Node& split : splits) nodes.push_back(std::move(split));
  }
  graph->nodes = std::move(nodes);
  graph->Reindex();
}

}  // namespace crema
