// Mistakes that Caffe runs without a word: a run with them trains, but not what was meant.
#pragma once

#include <cstddef>
#include <vector>

#include "core/error.h"
#include "plan/plan.h"
#include "solvers/solver_config.h"

namespace crema {

// Returns warnings about the texts of a run: fields of its nets and tests that make no sense
// together.
std::vector<Problem> WarnAboutRun(const RunConfig& config);

// Returns a warning if `freeze` leaves no layer of the planned training net that learns.
std::vector<Problem> WarnAboutFrozenNet(const SolverFile& solver, const Plan& train);

// Returns a warning for each layer with parameters of test net `index` that the training net lacks.
std::vector<Problem> WarnAboutUntrainedLayers(const Plan& train, const NetOfRun& net,
                                              const Plan& test, size_t index);

}  // namespace crema
