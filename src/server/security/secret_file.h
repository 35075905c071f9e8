// Files that hold tokens and keys.
#pragma once

#include <string>

namespace crema::server {

// Throws kInvalidArgument if any user may read or write the file. Ignores a file that cannot be
// examined, which the reader will report.
void RefuseOpenSecret(const std::string& path);

}  // namespace crema::server
