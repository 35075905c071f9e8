#include "plan/passes/upload_bytes.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "graph/byte_source.h"

namespace crema {
namespace {

// Returns nothing for layers without images, "" for layers whose images may be bytes, else the
// reason.
std::optional<std::string> WhyNumbers(const Node& node) {
  if (!node.inputs.empty() || node.outputs.empty()) return std::nullopt;
  if (const auto* source = dynamic_cast<const ByteSource*>(node.layer.get())) {
    try {
      return source->WhyNoBytes(node.layer->param().phase());
    } catch (const Error&) {
      return std::nullopt;
    }
  }
  const bool transforms = std::ranges::count(node.type->param_fields, "transform_param") > 0;
  if (!transforms) return std::nullopt;
  return StrCat("a layer of type ", node.type->name, " gives numbers only");
}

class Parter {
 public:
  Parter(Graph* graph, const Registry& registry) : graph_(*graph), registry_(registry) {}

  // Makes `source` output bytes, and adds the node that converts them to floats.
  Node Part(Node* source) {
    const int images = source->outputs[0];
    const std::string blob = graph_.values[static_cast<size_t>(images)].name;
    const std::string prefix = StrCat(blob, "_", source->name());
    ByteParts parts = dynamic_cast<const ByteSource&>(*source->layer).Part();
    source->layer = std::move(parts.source);
    LayerParameter param = std::move(parts.numbers);
    Node numbers;
    const auto add_input = [&](const std::string& name) {
      numbers.inputs.push_back(static_cast<int>(graph_.values.size()));
      param.add_bottom(name);
      Value value;
      value.name = name;
      graph_.values.push_back(std::move(value));
    };
    add_input(prefix + "_bytes");
    source->outputs[0] = numbers.inputs[0];
    if (parts.places) {
      add_input(prefix + "_places");
      source->outputs.push_back(numbers.inputs[1]);
    }
    param.set_name(prefix + "_floats");
    param.set_phase(graph_.state.phase());
    param.add_top(blob);
    numbers.outputs = {images};
    numbers.type = registry_.Find(param.type());
    CREMA_CHECK(numbers.type != nullptr);
    numbers.layer = numbers.type->make(param);
    return numbers;
  }

 private:
  Graph& graph_;
  const Registry& registry_;
};

}  // namespace

UploadDecisions UploadBytes(Graph* graph, const Registry& registry) {
  UploadDecisions decisions;
  Parter parter(graph, registry);
  std::vector<Node> nodes;
  for (Node& node : graph->nodes) {
    const std::optional<std::string> why = WhyNumbers(node);
    const bool parts = why.has_value() && why->empty();
    if (why.has_value() && !parts) decisions.emplace(node.layer.get(), *why);
    std::optional<Node> numbers;
    if (parts) numbers = parter.Part(&node);
    nodes.push_back(std::move(node));
    if (numbers.has_value()) nodes.push_back(*std::move(numbers));
  }
  graph->nodes = std::move(nodes);
  graph->Reindex();
  return decisions;
}

bool IsOfUploadBytes(const Plan& plan, const PlannedLayer& layer) {
  if (layer.type->name != "PixelsToFloat") return false;
  return std::ranges::none_of(plan.written.layer(), [&](const LayerParameter& written) {
    return written.name() == layer.name();
  });
}

}  // namespace crema
