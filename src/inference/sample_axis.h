// Determines if a net processes the samples of a batch independently.
#pragma once

#include "crema.pb.h"
#include "format/prototxt.h"
#include "graph/registry.h"

namespace crema {

// Returns true if the first axis of every input and output counts samples, and each output sample
// depends only on the same sample of the inputs. Derived from LayerInfo::reach and from the shapes
// for two batch sizes. Does not throw for an invalid net: returns false.
bool WorksBySample(const NetFile& net, const NetState& state, const Registry& registry);

}  // namespace crema
