// Solvers that go on from snapshots.
#pragma once

#include <memory>
#include <string>

#include "graph/registry.h"
#include "solvers/solver.h"
#include "solvers/solver_config.h"

namespace crema {

// A solver with the seed of the state (unless the options have one), restored from it. Throws what
// reading it, the constructor and Restore throw.
std::unique_ptr<Solver> ResumeFrom(const std::string& state_path, RunConfig config,
                                   const Registry& registry, SolverOptions options);

struct Resumed {
  std::unique_ptr<Solver> solver;
  std::string state;  // empty: there was none to go on from, training begins
};

// Restored from the newest snapshot beside snapshot_prefix (the highest iteration) whose files are
// whole: state, model and averaged weights, by their checksums. A newer one that is not is named in
// a warning. Throws kDataLoss where there are snapshots and none of them can be used,
// kInvalidArgument for a snapshot of another net, solver type or schedule, and where there is no
// snapshot_prefix.
Resumed ResumeNewest(const RunConfig& config, const Registry& registry,
                     const SolverOptions& options);

}  // namespace crema
