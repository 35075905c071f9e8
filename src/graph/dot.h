// Draws a net.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

namespace crema {

// Returns the graph in Graphviz's language: one box for each layer, coloured by family, with its
// main parameters; in-place layers are lines in the box of their input; arrows have the shapes.
// `infos` is the result of InferShapes. Requires: a graph without inserted Splits.
std::string ToDot(const Graph& graph, const std::vector<LayerInfo>& infos);

}  // namespace crema
