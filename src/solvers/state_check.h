// Checks that a solver state belongs to a run.
#pragma once

#include <cstdint>
#include <string>

#include "core/log.h"
#include "crema.pb.h"

namespace crema {

// Checks the type, the seed and the schedule of a state (read from `path`) of a run with this
// solver and seed; the update rule checks its histories. Logs warnings. Throws kInvalidArgument for
// a state of another type or schedule, and kDataLoss for a damaged one.
void CheckState(const SolverState& state, const std::string& path, const SolverParameter& param,
                uint64_t seed, LogSink* log);

}  // namespace crema
