// Joins groups of nodes that exporters make of one operator.
#pragma once

#include "onnx/import_convert.h"

namespace crema {

// Replaces groups of nodes by one node of a newer opset: LayerNormalization, Gelu, Swish,
// HardSwish, Attention, MatMul with a bias. Shapes and constants are those of `state`. Nodes that
// nothing reads any more are removed. Returns true if something changed.
bool JoinNodes(const ImportState& state, OnnxGraph* graph);

// Removes nodes that no output depends on.
void RemoveUnread(OnnxGraph* graph);

}  // namespace crema
