// Name of this machine, for file names that several machines may share.
#pragma once

#include <string>

namespace crema {

// Returns "host" if unknown; contains no '/'. Thread safety: any thread.
std::string HostName();

}  // namespace crema
