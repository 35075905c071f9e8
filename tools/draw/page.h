// Generates the interactive page of `draw`: one self-contained file.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "draw/facts.h"
#include "graph/dot.h"

namespace crema::tools {

// Returns titles for the elements of the drawing, by id: of a box, its layers; of an arrow, its
// blob.
std::map<std::string, std::string> TitlesOf(const Graph& graph, const std::vector<LayerInfo>& infos,
                                            const NetDrawing& drawing, const NetFacts& facts);

// Returns the page. `svg` is the drawing as Graphviz laid it out.
std::string DrawingPage(const Graph& graph, const std::vector<LayerInfo>& infos,
                        const NetDrawing& drawing, const NetFacts& facts, const std::string& svg);

extern const std::string_view kDrawingStyle;
extern const std::string_view kDrawingScript;

}  // namespace crema::tools
