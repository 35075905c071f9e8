// Which machine this is, for names of files that several machines may see.
#pragma once

#include <string>

namespace crema {

// "host" where the system does not say; without '/'. Thread safety: any thread.
std::string HostName();

}  // namespace crema
