// What a choice of memory formats does to a graph.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace crema {

struct NodeFormats {
  MemoryFormat in;   // of all its inputs
  MemoryFormat out;  // of all its outputs
};

// Values that users of the net see are plain.
inline bool IsPlainForUsers(const Value& value) {
  return value.readers.empty() || value.loss_weight != 0;
}

// Sets Value::format, and puts Reorder nodes where a reader, or the user, wants another format than
// the producer gives: one for each. `formats` is by node.
void SetFormats(const std::vector<NodeFormats>& formats, const Registry& registry, Graph* graph);

}  // namespace crema
