// --backend, for commands that write data sets.
#pragma once

#include <gflags/gflags_declare.h>

#include "crema.pb.h"

DECLARE_string(backend);

namespace crema::tools {

// Returns the value of --backend. Throws kInvalidArgument.
DataParameter::DB BackendOfFlag();

}  // namespace crema::tools
