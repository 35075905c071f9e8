// The net as nodes in order and the values between them, with names resolved (SSA).
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

// An output of a node. A layer that works "in place" makes a new value of the same name.
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

// Passes may edit it; one thread. Requires: nodes are in an order in which they can run.
struct Graph {
  std::string name;
  NetState state;
  bool force_backward = false;
  std::vector<Node> nodes;
  std::vector<Value> values;
  SourceMap source;

  // Returns the position of a field of a node, for messages.
  Where Locate(const Node& node, const std::string& field) const;
  // Returns values without readers, ordered by name as Caffe orders its net outputs.
  std::vector<int> Outputs() const;
  // Recomputes producer, output and readers of all values, and drops values without producer.
  void Reindex();
};

// Returns true if the include and exclude rules of a layer admit it under this state. Throws if it
// has both.
bool IsIncluded(const LayerParameter& layer, const NetState& state);

// Far beyond any real net; planning takes a few seconds then.
inline constexpr int kMaxLayers = 100'000;

// Builds the graph of an upgraded net for one state: drops layers by their rules, makes and
// validates each layer, resolves names. Throws Error with all problems found. Appends warnings
// (fields without effect).
Graph BuildGraph(const NetParameter& net, const SourceMap& source, const NetState& state,
                 const Registry& registry, std::vector<Problem>* warnings);

// Returns the net of the graph, which BuildGraph would accept.
NetParameter ToNetParameter(const Graph& graph);

}  // namespace crema
