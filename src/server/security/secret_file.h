// Files that hold tokens and keys.
#pragma once

#include <string>

namespace crema::server {

// Throws kInvalidArgument where everybody on the machine may read or write the file. What cannot be
// looked at is left to the one who reads it.
void RefuseOpenSecret(const std::string& path);

}  // namespace crema::server
