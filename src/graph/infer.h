// Shapes of a whole graph.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace crema {

struct InferOptions {
  DType dtype = DType::kF32;
  int rank = 0;
  int world = 1;
};

// The answer of each node's Infer, in order. Throws Error with all problems found; problems about
// inputs say what each input is and which layer, at which line, produces it.
std::vector<LayerInfo> InferShapes(const Graph& graph, const InferOptions& options);

}  // namespace crema
