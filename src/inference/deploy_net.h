// Reduces a net to the layers needed for inference.
#pragma once

#include <string>

#include "crema.pb.h"
#include "format/prototxt.h"
#include "graph/registry.h"

namespace crema {

// Returns the state for inference: level and stages of the net's own state, phase TEST.
NetState InferenceState(const NetParameter& net);

// Returns the layers that `state` admits and an output depends on, without rules, parameters and
// dropout. Keeps inputs, outputs, their order, and every bit of the results. Throws what BuildGraph
// throws.
NetParameter DeployNet(const NetFile& net, const NetState& state, const Registry& registry);

// Throws kInvalidArgument if a layer reads or writes files: an exported model is a single file.
// Throws kUnsupported for a layer of type Python.
void RefuseOtherFiles(const NetFile& net, const NetState& state);

// Resolves the files that layers read to `folder`, which is absolute and without links. Throws
// kInvalidArgument for an absolute path, one with "..", or one that leaves the folder by a link,
// and kUnsupported for a layer of type Python.
void ConfineFilesTo(const std::string& folder, NetFile* net);

}  // namespace crema
