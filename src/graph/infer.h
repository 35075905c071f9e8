// Infers the shapes of a whole graph.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace crema {

// Earlier results, for a graph whose inputs have new shapes. A node that does not accept them, or
// would need parameters of other shapes, keeps its earlier result.
struct InferredBefore {
  std::vector<LayerInfo> infos;  // by node
  std::vector<bool> kept;        // set by InferShapes, by node
};

struct InferOptions {
  DType dtype = DType::kF32;
  int rank = 0;
  int world = 1;
  InferredBefore* before = nullptr;  // null: shapes that do not fit are errors
};

// Returns the result of each node's Infer, in order. Throws Error with all problems found; problems
// about inputs name each input with the layer and line that produces it.
std::vector<LayerInfo> InferShapes(const Graph& graph, const InferOptions& options);

}  // namespace crema
