// The libraries that kernels are made of.
#pragma once

#include <string>

namespace crema {

// "oneDNN 2.6.3", as far as this build has them, or "none"; on one line.
std::string LibraryVersions();

}  // namespace crema
