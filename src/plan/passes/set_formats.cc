#include "plan/passes/set_formats.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/strings.h"
#include "crema.pb.h"
#include "plan/precision.h"

namespace crema {
namespace {

// `range` is the int8 range of the value. Null unless one of the two formats is of bytes.
Node ReorderNode(const Value& value, MemoryFormat format, const Int8Range* range,
                 const Registry& registry, const NetState& state) {
  LayerParameter param;
  param.set_type("Reorder");
  std::string name = StrCat(value.name, "_to_", ToString(format));
  std::ranges::replace(name, ' ', '_');
  param.set_name(std::move(name));
  param.set_phase(state.phase());
  param.add_bottom(value.name);
  param.add_top(value.name);
  if (range != nullptr) {
    param.set_precision(INT8);
    *param.mutable_int8()->add_bottom() = *range;
    *param.mutable_int8()->add_top() = *range;
  }
  Node node;
  node.type = registry.Find("Reorder");
  CREMA_CHECK(node.type != nullptr);
  node.layer = node.type->make(param);
  return node;
}

class Inserter {
 public:
  Inserter(const Registry& registry, Graph* graph) : registry_(registry), graph_(*graph) {}

  void Run(const std::vector<NodeFormats>& formats) {
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      for (int v : graph_.nodes[n].outputs) ValueOf(v).format = formats[n].out;
    }
    const size_t count = graph_.nodes.size();
    for (size_t n = 0; n < count; ++n) {
      Node node = graph_.nodes[n];
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        node.inputs[i] = InFormat(node.inputs[i], formats[n].Input(i));
      }
      const std::vector<int> outputs = node.outputs;
      nodes_.push_back(std::move(node));
      for (int v : outputs) {
        if (IsPlainForUsers(ValueOf(v))) InFormat(v, {});
      }
    }
    graph_.nodes = std::move(nodes_);
    graph_.Reindex();
  }

 private:
  Value& ValueOf(int v) { return graph_.values[static_cast<size_t>(v)]; }

  // Returns the value in this format: the value itself, or the output of a new Reorder node.
  int InFormat(int v, MemoryFormat format) {
    if (ValueOf(v).format == format) return v;
    const bool bytes = ValueOf(v).format.type == DType::kU8 || format.type == DType::kU8;
    const Int8Range* range = bytes ? Int8RangeOf(graph_, v) : nullptr;
    CREMA_CHECK(!bytes || range != nullptr);
    Node node = ReorderNode(ValueOf(v), format, range, registry_, graph_.state);
    const int reordered = static_cast<int>(graph_.values.size());
    node.inputs = {v};
    node.outputs = {reordered};
    nodes_.push_back(std::move(node));
    Value value;
    value.name = ValueOf(v).name;
    value.loss_weight = std::exchange(ValueOf(v).loss_weight, 0.0F);
    value.format = format;
    graph_.values.push_back(std::move(value));
    return reordered;
  }

  const Registry& registry_;
  Graph& graph_;
  std::vector<Node> nodes_;  // in their new order
};

}  // namespace

void SetFormats(const std::vector<NodeFormats>& formats, const Registry& registry, Graph* graph) {
  Inserter(registry, graph).Run(formats);
}

}  // namespace crema
