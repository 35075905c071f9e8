// Makes solvers that resume from snapshots.
#pragma once

#include <memory>
#include <string>

#include "graph/registry.h"
#include "solvers/solver.h"
#include "solvers/solver_config.h"

namespace crema {

// Makes a solver with the seed of the state (unless the options have one) and restores it. Throws
// the errors of reading the state, the constructor and Restore.
std::unique_ptr<Solver> ResumeFrom(const std::string& state_path, RunConfig config,
                                   const Registry& registry, SolverOptions options);

struct Resumed {
  std::unique_ptr<Solver> solver;
  std::string state;  // empty: there was no snapshot, training begins
};

// Resumes from the newest snapshot beside snapshot_prefix (the highest iteration) whose files are
// intact: state, model and averaged weights, by their checksums. Newer damaged ones are named in
// warnings. Throws kDataLoss if there are snapshots but none is usable, and kInvalidArgument for a
// snapshot of another net, solver type or schedule, and without snapshot_prefix.
Resumed ResumeNewest(const RunConfig& config, const Registry& registry,
                     const SolverOptions& options);

}  // namespace crema
