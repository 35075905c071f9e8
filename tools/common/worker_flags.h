// Flags of commands that read, decode and encode on several threads.
#pragma once

namespace crema::tools {

// Returns the value of --threads or -j; by default the number of processors. Throws
// kInvalidArgument.
int WorkersOfFlags();

}  // namespace crema::tools
