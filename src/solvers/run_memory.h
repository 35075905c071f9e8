// The memory requirements of a training run; train and check share this.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/error.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "plan/plan.h"
#include "solvers/solver_config.h"

namespace crema {

// Return the bytes of the training net with the histories and averages of its solver, and of a test
// net, which uses the weights of the training net.
int64_t TrainingBytes(const SolverParameter& solver, const Plan& plan);
int64_t TestingBytes(const Plan& plan);

// Returns kOutOfMemory and its remedy if `needed` bytes are more than `available`; nothing if
// `available` is 0 (unknown).
std::optional<Problem> FindMemoryProblem(int64_t needed, int64_t available);

// Throws that Problem for the memory that is available to this process, before it is allocated.
void RequireMemory(int64_t needed);

// "12.5 MiB".
std::string Mebibytes(int64_t bytes);

// Returns `cause`, a failed allocation on a GPU that had `free` bytes, with the needs of the run
// and the largest batch that fits. `train` is the plan of its training net. Plans the nets again.
Error ExplainRunShortage(const Error& cause, const RunConfig& config, const Registry& registry,
                         const Plan& train, int64_t free);

}  // namespace crema
