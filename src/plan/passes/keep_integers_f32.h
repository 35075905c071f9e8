// Layers that only move numbers say nothing of what these are: ids and labels go through them too,
// and must not be rounded on the way.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "graph/layer.h"
#include "plan/passes/set_formats.h"

namespace crema {

// Makes such layers plain again that have a half format, unless all they read is made in it, or all
// that reads them computes in it anyway. `infos` and `formats` are by node.
void KeepIntegersF32(const Graph& graph, const std::vector<LayerInfo>& infos,
                     std::vector<NodeFormats>* formats);

// Bytes of every input are those of every output: all have one range.
bool KeepsInt8Range(const Graph& graph, const Node& node);

}  // namespace crema
