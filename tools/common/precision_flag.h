// --precision, for commands that plan a net.
#pragma once

#include "crema.pb.h"

namespace crema::tools {

// Overrides the net's precision by the flag; does nothing without it. Throws kInvalidArgument for
// an unknown name.
void SetPrecisionOfFlag(NetParameter* net);

}  // namespace crema::tools
