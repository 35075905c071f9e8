// Flags of commands that read and write data sets.
#pragma once

#include <gflags/gflags_declare.h>

#include "crema.pb.h"

DECLARE_string(backend);

namespace crema::tools {

// What --threads or -j says; without them the number of processors. Throws kInvalidArgument.
int WorkersOfFlags();

// What --backend says. Throws kInvalidArgument.
DataParameter::DB BackendOfFlag();

}  // namespace crema::tools
