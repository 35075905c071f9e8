#include "report/tensorboard_graph.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "report/message_writer.h"

namespace crema {
namespace {

// Field numbers of tensorflow/core/framework/{graph,node_def,attr_value,tensor_shape}.proto.
MessageWriter ShapeMessage(const Shape& shape) {
  constexpr int kDim = 2;
  constexpr int kSize = 1;
  MessageWriter message;
  for (int axis = 0; axis < shape.axes(); ++axis) {
    MessageWriter dim;
    dim.Integer(kSize, shape[axis]);
    message.Message(kDim, dim);
  }
  return message;
}

MessageWriter OutputShapes(const Plan& plan, const PlannedLayer& layer) {
  constexpr int kShapeInList = 7;
  constexpr int kList = 1;
  constexpr int kKey = 1;
  constexpr int kValue = 2;
  MessageWriter list;
  for (const int v : layer.outputs) {
    list.Message(kShapeInList, ShapeMessage(plan.values[static_cast<size_t>(v)].spec.shape));
  }
  MessageWriter value;
  value.Message(kList, list);
  MessageWriter entry;
  entry.Bytes(kKey, "_output_shapes");
  entry.Message(kValue, value);
  return entry;
}

std::string NodeName(const std::string& layer, std::set<std::string>* taken) {
  std::string name = layer;
  std::ranges::replace_if(
      name,
      [](unsigned char c) {
        return std::isalnum(c) == 0 &&
               std::string_view("_.-/").find(static_cast<char>(c)) == std::string_view::npos;
      },
      '_');
  if (name.empty()) name = "layer";
  std::string unique = name;
  for (int i = 1; !taken->insert(unique).second; ++i) unique = StrCat(name, "_", i);
  return unique;
}

MessageWriter NodeMessage(const Plan& plan, const PlannedLayer& layer, const std::string& name,
                          const std::vector<std::string>& value_names) {
  constexpr int kName = 1;
  constexpr int kOp = 2;
  constexpr int kInput = 3;
  constexpr int kAttr = 5;
  MessageWriter node;
  node.Bytes(kName, name);
  node.Bytes(kOp, layer.layer->param().type());
  for (const int v : layer.inputs) node.Bytes(kInput, value_names[static_cast<size_t>(v)]);
  node.Message(kAttr, OutputShapes(plan, layer));
  return node;
}

}  // namespace

std::string GraphDefOf(const Plan& plan) {
  constexpr int kNode = 1;
  constexpr int kVersions = 4;
  constexpr int kProducer = 1;
  MessageWriter graph;
  std::set<std::string> taken;
  std::vector<std::string> value_names(plan.values.size());  // "node" or "node:output"
  for (const PlannedLayer& layer : plan.layers) {
    const bool is_split = layer.layer->param().type() == "Split";
    const std::string name = is_split ? "" : NodeName(layer.name(), &taken);
    if (!is_split) graph.Message(kNode, NodeMessage(plan, layer, name, value_names));
    for (size_t i = 0; i < layer.outputs.size(); ++i) {
      value_names[static_cast<size_t>(layer.outputs[i])] =
          is_split ? value_names[static_cast<size_t>(layer.inputs[0])]
                   : name + (i == 0 ? std::string() : StrCat(":", i));
    }
  }
  MessageWriter versions;
  versions.Integer(kProducer, 22);
  graph.Message(kVersions, versions);
  return graph.bytes();
}

}  // namespace crema
