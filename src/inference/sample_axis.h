// Whether a net works on the samples of a batch one by one.
#pragma once

#include "format/prototxt.h"
#include "graph/registry.h"

namespace crema {

// Whether the first axis of every input and output counts samples, and each sample of an output
// depends on the same sample of the inputs only. Found out from LayerInfo::reach of the layers and
// their shapes for two batch sizes. Never throws for what is wrong with the net: no then, too.
bool WorksBySample(const NetFile& net, const NetState& state, const Registry& registry);

}  // namespace crema
