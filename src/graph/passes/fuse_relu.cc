// See FuseRelu in passes.h.
#include "crema.pb.h"
#include "graph/passes/passes.h"

namespace crema {
namespace {

bool CanCarryRelu(const Node& node) {
  const LayerParameter& param = node.layer->param();
  return (param.type() == "Convolution" || param.type() == "InnerProduct") &&
         node.outputs.size() == 1 && !param.has_fused_relu_param();
}

// A ReLU that is to compute in a precision of its own stays alone.
bool SamePrecision(const LayerParameter& relu, const LayerParameter& leader) {
  return !relu.has_precision() ||
         (leader.has_precision() && leader.precision() == relu.precision());
}

}  // namespace

void FuseRelu(const std::map<std::string, std::string>& pinned, Graph* graph) {
  std::vector<Node> nodes;
  std::vector<bool> gone(graph->nodes.size(), false);
  for (size_t n = 0; n < graph->nodes.size(); ++n) {
    Node& node = graph->nodes[n];
    if (gone[n]) continue;
    if (CanCarryRelu(node)) {
      const Value& value = graph->values[static_cast<size_t>(node.outputs[0])];
      const Node* relu = value.readers.size() == 1 && value.loss_weight == 0
                             ? &graph->nodes[static_cast<size_t>(value.readers[0])]
                             : nullptr;
      if (relu != nullptr && relu->layer->param().type() == "ReLU" &&
          !pinned.contains(relu->layer->param().name()) &&
          relu->layer->param().relu_param().negative_slope() >= 0 &&
          SamePrecision(relu->layer->param(), node.layer->param()) &&
          relu->layer->param().param_size() == 0 &&
          relu->layer->param().propagate_down_size() == 0) {
        LayerParameter param = node.layer->param();
        param.mutable_fused_relu_param()->set_negative_slope(
            relu->layer->param().relu_param().negative_slope());
        // What is stored is what the ReLU gives.
        if (param.has_int8() || relu->layer->param().int8().top_size() > 0) {
          *param.mutable_int8()->mutable_top() = relu->layer->param().int8().top();
        }
        // Only what neither of them keeps is not kept; a ReLU alone would free nothing.
        if (!relu->layer->param().recompute()) param.clear_recompute();
        node.layer = node.type->make(param);
        node.outputs = relu->outputs;
        gone[static_cast<size_t>(value.readers[0])] = true;
      }
    }
    nodes.push_back(node);
  }
  graph->nodes = std::move(nodes);
  graph->Reindex();
}

}  // namespace crema
