// The net as a value: nodes in order and the values between them, names resolved (SSA).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "crema.pb.h"
#include "format/source_map.h"
#include "graph/layer.h"
#include "graph/registry.h"

namespace crema {

// What one node produces. Layers that work "in place" make a new value of the same name.
struct Value {
  std::string name;
  int producer = -1;         // node
  int output = 0;            // which of its outputs
  std::vector<int> readers;  // nodes, ascending; one entry for each input that refers to it
  float loss_weight = 0;     // share in the total loss; 0: none
  MemoryFormat format = {};
};

struct Node {
  std::shared_ptr<const Layer> layer;  // param() holds name, type and parameters
  const LayerType* type = nullptr;
  std::vector<int> inputs;   // values
  std::vector<int> outputs;  // values
  std::string source_path;   // "layer[7]" in the text; empty for nodes that a pass made

  const std::string& name() const { return layer->param().name(); }
};

// Editable by passes; one thread. Requires: nodes are in an order in which they can run.
struct Graph {
  std::string name;
  NetState state;
  bool force_backward = false;
  std::vector<Node> nodes;
  std::vector<Value> values;
  SourceMap source;

  // Position of a field of a node, for messages.
  Where Locate(const Node& node, const std::string& field) const;
  // Values that nobody reads, ordered by name as Caffe orders its net outputs.
  std::vector<int> Outputs() const;
  // Recomputes producer, output and readers of all values, and drops values without producer.
  void Reindex();
};

// Whether the rules of a layer admit it under this state. Throws when it has both include and
// exclude rules.
bool IsIncluded(const LayerParameter& layer, const NetState& state);

// Far beyond any net that was ever written; planning takes a few seconds then.
inline constexpr int kMaxLayers = 100'000;

// Builds the graph of an upgraded net for one state: drops layers by their rules, makes and
// validates each layer, resolves names. Throws Error with all problems found. Warnings (fields
// without effect) are appended.
Graph BuildGraph(const NetParameter& net, const SourceMap& source, const NetState& state,
                 const Registry& registry, std::vector<Problem>* warnings);

// The graph as text again; what BuildGraph would read.
NetParameter ToNetParameter(const Graph& graph);

}  // namespace crema
