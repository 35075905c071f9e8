// Flags of commands that read, decode and encode with several threads.
#pragma once

namespace crema::tools {

// What --threads or -j says; without them the number of processors. Throws kInvalidArgument.
int WorkersOfFlags();

}  // namespace crema::tools
