// Draws a net.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

namespace crema {

// A net in Graphviz's language, and what its elements stand for. Their `id` is that of the element
// in an SVG file, too.
struct NetDrawing {
  struct Box {
    std::string id;
    std::vector<size_t> nodes;  // a layer, and those that work in place on its output
  };
  struct Arrow {
    std::string id;
    std::string from;  // ids
    std::string to;
    int value = -1;
  };
  std::string dot;
  std::vector<Box> boxes;
  std::vector<Arrow> arrows;  // also those to the outputs of the net
};

// Draws one box for each layer, coloured by family, with its main parameters and the shapes of its
// outputs; in-place layers are lines in the box of their input. `infos` is the result of
// InferShapes. `remarks` are further lines, by node; empty: none. Requires: a graph without
// inserted Splits.
NetDrawing DrawNet(const Graph& graph, const std::vector<LayerInfo>& infos,
                   const std::vector<std::string>& remarks = {});

// Returns the text of the drawing.
std::string ToDot(const Graph& graph, const std::vector<LayerInfo>& infos);

// Returns the main parameters of a layer: "3x3, 64 outputs, stride 2"; may be empty.
std::string BriefParameters(const LayerParameter& layer);

// Returns the shape of a value, with the type if it is not a float: "1x3x224x224 u8".
std::string ShapeText(const Graph& graph, const std::vector<LayerInfo>& infos, int value);

}  // namespace crema
