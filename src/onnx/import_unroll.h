// Replaces control flow and sequences of tensors whose form is known by plain nodes.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "onnx/import_node.h"

namespace crema {

// Sequences of tensors by name: the names of their elements.
using OnnxSequences = std::map<std::string, std::vector<std::string>>;

// Returns the nodes that stand for an If with a constant condition, a Scan, a Loop with a constant
// number of steps, SplitToSequence, ConcatFromSequence, QLinearConv or QLinearMatMul; nothing:
// another node, or one that cannot be replaced. Adds constants and aliases to the graph of `state`.
// Requires: inputs that are tensors are known. Throws kUnsupported with the reason; with the file,
// if loops make the model too large.
std::optional<std::vector<OnnxNode>> UnrollNode(const OnnxNode& node, OnnxSequences* sequences,
                                                ImportState* state);

// Returns true if the node only makes or reads a sequence; its outputs are set then. Throws like
// UnrollNode.
bool ResolveSequence(const OnnxNode& node, OnnxSequences* sequences, ImportState* state);

}  // namespace crema
