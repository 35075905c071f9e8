// Writes messages with a seal.
#pragma once

#include <string>

#include "crema.pb.h"

namespace crema {

// Seals and writes atomically. Drops seals in the message itself. Throws kUnsupported above 2 GiB,
// kIoFailure.
void WriteSealed(const NetParameter& net, const std::string& path);
void WriteSealed(const SolverState& state, const std::string& path);

}  // namespace crema
