// Signals while training: requests to the solver.
#pragma once

#include <functional>

#include "solvers/solver.h"

namespace crema::tools {

// What the flags --sigint_effect and --sighup_effect say; SIGTERM always stops. Throws
// kInvalidArgument for other words.
std::function<Request()> WatchSignals();

// From here on, SIGINT, SIGTERM and SIGHUP are requests; before, they end the command at once. A
// signal that comes while a snapshot is written does not disturb it; but one that stops, a second
// or more after the first such, ends the command at once.
void CatchSignals();

}  // namespace crema::tools
