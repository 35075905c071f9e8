// Flag of commands that write data sets.
#pragma once

#include <gflags/gflags_declare.h>

#include "crema.pb.h"

DECLARE_string(backend);

namespace crema::tools {

// What --backend says. Throws kInvalidArgument.
DataParameter::DB BackendOfFlag();

}  // namespace crema::tools
