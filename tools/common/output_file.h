// Files that commands write at their end.
#pragma once

#include <string>

#include "format/file.h"

namespace crema::tools {

// Throws kIoFailure where `path` cannot be written, to be called before the work is done. Leaves no
// file.
inline void CheckOutputFile(const std::string& path) { const AtomicFile probe(path); }

}  // namespace crema::tools
