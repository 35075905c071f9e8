// The libraries that kernels are made of.
#pragma once

#include <string>

namespace crema {

// "oneDNN 2.6.3, OpenBLAS 0.3.21 ...", as far as this build has them; on one line.
std::string LibraryVersions();

}  // namespace crema
