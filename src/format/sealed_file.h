// Messages written with a seal.
#pragma once

#include <string>

#include "crema.pb.h"

namespace crema {

// Seals and writes atomically. Seals in the message itself are left out. Throws kUnsupported above
// 2 GiB, kIoFailure.
void WriteSealed(const NetParameter& net, const std::string& path);
void WriteSealed(const SolverState& state, const std::string& path);

}  // namespace crema
