// The memory of the CPU that a training run plans to take; train and check share this.
#pragma once

#include <cstdint>
#include <optional>

#include "core/error.h"
#include "crema.pb.h"
#include "plan/plan.h"

namespace crema {

// Bytes of the training net with the histories and averages of its solver, and of a test net, which
// uses the weights of the training net.
int64_t TrainingBytes(const SolverParameter& solver, const Plan& plan);
int64_t TestingBytes(const Plan& plan);

// kOutOfMemory with what to do when `needed` bytes are more than `available`; nothing when it is
// not known what is available (0).
std::optional<Problem> FindMemoryProblem(int64_t needed, int64_t available);

// Throws that Problem for what this process can still have, before it is allocated.
void RequireMemory(int64_t needed);

// "12.5 MiB".
std::string Mebibytes(int64_t bytes);

}  // namespace crema
