// The versions of the math libraries.
#pragma once

#include <string>

namespace crema {

// Returns e.g. "oneDNN 2.6.3" for the libraries in this build, or "none"; on one line.
std::string LibraryVersions();

}  // namespace crema
