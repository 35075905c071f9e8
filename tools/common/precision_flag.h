// --precision, for commands that plan a net.
#pragma once

#include "crema.pb.h"

namespace crema::tools {

// Writes the number format of the flag into the net, instead of what its text says; nothing without
// the flag. Throws kInvalidArgument for a name that is none.
void SetPrecisionOfFlag(NetParameter* net);

}  // namespace crema::tools
