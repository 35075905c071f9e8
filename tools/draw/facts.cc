#include "draw/facts.h"

#include <cstdio>

#include "core/strings.h"

namespace crema::tools {
namespace {

std::string ImplementationText(const Plan& plan, const PlannedLayer& layer) {
  if (layer.fusion.leader >= 0) {
    return "in " + plan.layers[static_cast<size_t>(layer.fusion.leader)].name();
  }
  if (!layer.forward) return "view";
  if (layer.implementation == nullptr) return "none";
  return StrCat(layer.implementation->name, layer.tuned ? ", tuned" : "",
                layer.in_place ? ", in place" : "");
}

// Returns true for a layer that is drawn in the box of its input.
bool IsInPlace(const Graph& graph, const Node& node) {
  if (node.inputs.size() != 1 || node.outputs.size() != 1) return false;
  const auto name = [&](int v) { return graph.values[static_cast<size_t>(v)].name; };
  return name(node.inputs[0]) == name(node.outputs[0]);
}

}  // namespace

std::map<std::string, PlannedFacts> FactsOfPlan(const Plan& plan) {
  std::map<std::string, PlannedFacts> facts;
  for (const PlannedLayer& layer : plan.layers) {
    facts[layer.name()] = {.implementation = ImplementationText(plan, layer),
                           .skipped = layer.skipped};
  }
  return facts;
}

std::vector<std::string> Remarks(const Graph& graph, const NetFacts& facts) {
  std::vector<std::string> remarks;
  for (const Node& node : graph.nodes) {
    std::string& text = remarks.emplace_back();
    const auto planned = facts.plan.find(node.name());
    if (planned != facts.plan.end()) text = planned->second.implementation;
    // A layer without work of its own needs no line.
    if (text == "none" || (text.starts_with("in ") && IsInPlace(graph, node))) text.clear();
    const auto times = facts.times.find(node.name());
    if (times == facts.times.end()) continue;
    char time[64];
    std::snprintf(time, sizeof(time), "%.3g ms, %.1f %%", times->second.total_ms(),
                  times->second.share * 100);
    text += (text.empty() ? "" : "; ") + std::string(time);
  }
  return remarks;
}

}  // namespace crema::tools
