// Checks output files before a long computation.
#pragma once

#include <string>

#include "format/file.h"

namespace crema::tools {

// Throws kIoFailure if `path` cannot be written. Leaves no file.
inline void CheckOutputFile(const std::string& path) { const AtomicFile probe(path); }

}  // namespace crema::tools
