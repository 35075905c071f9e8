// Infers the shapes of a whole graph.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace crema {

struct InferOptions {
  DType dtype = DType::kF32;
  int rank = 0;
  int world = 1;
};

// Returns the result of each node's Infer, in order. Throws Error with all problems found; problems
// about inputs name each input with the layer and line that produces it.
std::vector<LayerInfo> InferShapes(const Graph& graph, const InferOptions& options);

}  // namespace crema
