// Applies a choice of memory formats to a graph.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace crema {

struct NodeFormats {
  MemoryFormat in;           // of its inputs
  MemoryFormat out;          // of all its outputs
  bool plain_later = false;  // its inputs after the first are plain

  MemoryFormat Input(size_t i) const { return plain_later && i > 0 ? MemoryFormat{} : in; }
  friend bool operator==(const NodeFormats&, const NodeFormats&) = default;
};

// Returns true for values that users of the net see. These are plain.
inline bool IsPlainForUsers(const Value& value) {
  return value.readers.empty() || value.loss_weight != 0;
}

// Sets Value::format, and inserts one Reorder node for each format that a consumer, or the user,
// needs and the producer does not write. `formats` is indexed by node.
void SetFormats(const std::vector<NodeFormats>& formats, const Registry& registry, Graph* graph);

}  // namespace crema
