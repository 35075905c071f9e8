// A net without what is not needed to use it.
#pragma once

#include <string>

#include "format/prototxt.h"
#include "graph/registry.h"

namespace crema {

// What a net that is used is made with: the level and stages of its own state, phase TEST.
NetState StateForUse(const NetParameter& net);

// The layers that `state` admits and an output depends on, without rules, learned blobs and
// dropout. Inputs and outputs, their order, and every bit that is computed stay the same. Throws
// what BuildGraph throws.
NetParameter DeployNet(const NetFile& net, const NetState& state, const Registry& registry);

// Throws kInvalidArgument where a layer reads or writes files: a model has all that it needs in its
// own one.
void RefuseOtherFiles(const NetFile& net, const NetState& state);

// Makes the names of files that layers read relative to `folder`, which is absolute and without
// links. Throws kInvalidArgument for one that is absolute, has "..", or leads out by a link.
void KeepFilesWithin(const std::string& folder, NetFile* net);

}  // namespace crema
