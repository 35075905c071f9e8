#include "onnx/import_join.h"

#include <algorithm>
#include <set>

namespace crema {

void RemoveUnread(OnnxGraph* graph) {
  std::set<std::string> read;
  for (const std::string& output : graph->outputs) read.insert(graph->Resolve(output));
  const std::function<void(const onnx::NodeProto&)> add = [&](const onnx::NodeProto& node) {
    for (const std::string& name : node.input()) read.insert(graph->Resolve(name));
    for (const auto& attribute : node.attribute()) {
      for (const auto& child : attribute.g().node()) add(child);
      for (const auto& output : attribute.g().output()) read.insert(graph->Resolve(output.name()));
    }
  };
  std::vector<OnnxNode> kept;
  for (auto node = graph->nodes.rbegin(); node != graph->nodes.rend(); ++node) {
    const bool needed = std::ranges::any_of(
        node->proto.output(), [&](const std::string& name) { return read.contains(name); });
    if (!needed) continue;
    add(node->proto);
    kept.push_back(std::move(*node));
  }
  std::ranges::reverse(kept);
  graph->nodes = std::move(kept);
}

bool JoinNodes(const ImportState& /*state*/, OnnxGraph* graph) {
  const size_t before = graph->nodes.size();
  RemoveUnread(graph);
  return graph->nodes.size() != before;
}

}  // namespace crema
