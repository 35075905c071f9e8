// A net as a picture.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

namespace crema {

// The graph in Graphviz's language: a box a layer, coloured by family, with its parameters in
// short; layers that work in place are lines of the box before them; shapes stand on the arrows.
// `infos` is what InferShapes says of it. Requires: a graph without inserted Splits.
std::string ToDot(const Graph& graph, const std::vector<LayerInfo>& infos);

}  // namespace crema
