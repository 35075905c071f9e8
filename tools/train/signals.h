// Converts signals during training to requests to the solver.
#pragma once

#include <functional>

#include "solvers/solver.h"

namespace crema::tools {

// Returns the requests of --sigint_effect and --sighup_effect; SIGTERM always stops. Throws
// kInvalidArgument for unknown words.
std::function<Request()> WatchSignals();

// From here on, SIGINT, SIGTERM and SIGHUP are requests; before, they end the command at once. A
// signal does not disturb the writing of a snapshot, but a second stop at least a second after the
// first ends the command at once.
void CatchSignals();

}  // namespace crema::tools
