// Keeps ids and labels in f32. Layers that only move elements do not declare their meaning, so
// integers pass through them too and must not be rounded.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "graph/layer.h"
#include "plan/passes/set_formats.h"

namespace crema {

// Sets the plain format for such layers in a 16-bit format, unless the producers of all inputs or
// all consumers compute in that format. `infos` and `formats` are indexed by node.
void KeepIntegersF32(const Graph& graph, const std::vector<LayerInfo>& infos,
                     std::vector<NodeFormats>* formats);

// Returns true if all inputs and outputs have one int8 range, so each byte keeps its value.
bool KeepsInt8Range(const Graph& graph, const Node& node);

}  // namespace crema
