#include "graph/graph.h"

#include <algorithm>

#include "core/strings.h"
#include "crema.pb.h"

namespace crema {

Where Graph::Locate(const Node& node, const std::string& field) const {
  Where where;
  if (!node.source_path.empty()) {
    where = source.Locate(field.empty() ? node.source_path : node.source_path + "." + field);
  }
  where.layer = node.name();
  where.field = field;
  return where;
}

std::vector<int> Graph::Outputs() const {
  std::vector<int> outputs;
  for (size_t v = 0; v < values.size(); ++v) {
    if (values[v].readers.empty()) outputs.push_back(static_cast<int>(v));
  }
  std::ranges::stable_sort(outputs, {}, [&](int v) { return values[static_cast<size_t>(v)].name; });
  return outputs;
}

void Graph::Reindex() {
  std::vector<int> renumbered(values.size(), -1);
  std::vector<Value> kept;
  for (size_t n = 0; n < nodes.size(); ++n) {
    for (size_t o = 0; o < nodes[n].outputs.size(); ++o) {
      int& id = nodes[n].outputs[o];
      Value value = values[static_cast<size_t>(id)];
      value.producer = static_cast<int>(n);
      value.output = static_cast<int>(o);
      value.readers.clear();
      renumbered[static_cast<size_t>(id)] = static_cast<int>(kept.size());
      id = static_cast<int>(kept.size());
      kept.push_back(std::move(value));
    }
    for (int& id : nodes[n].inputs) {
      id = renumbered[static_cast<size_t>(id)];
      CREMA_CHECK(id >= 0);
      kept[static_cast<size_t>(id)].readers.push_back(static_cast<int>(n));
    }
  }
  values = std::move(kept);
}

NetParameter ToNetParameter(const Graph& graph) {
  NetParameter net;
  if (!graph.name.empty()) net.set_name(graph.name);
  if (graph.force_backward) net.set_force_backward(true);
  for (const Node& node : graph.nodes) {
    LayerParameter* layer = net.add_layer();
    *layer = node.layer->param();
    layer->clear_bottom();
    layer->clear_top();
    for (int v : node.inputs) layer->add_bottom(graph.values[static_cast<size_t>(v)].name);
    for (int v : node.outputs) layer->add_top(graph.values[static_cast<size_t>(v)].name);
  }
  return net;
}

}  // namespace crema
