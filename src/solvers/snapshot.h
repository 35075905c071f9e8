// The two files of a snapshot: <prefix>_iter_N.caffemodel and .solverstate, or both with .h5.
#pragma once

#include <cstdint>
#include <string>

#include "crema.pb.h"
#include "graph/plan.h"
#include "runtime/weights.h"

namespace crema {

struct SnapshotPaths {
  std::string model;
  std::string state;
};

SnapshotPaths PathsOf(const SolverParameter& param, int64_t iteration);

// Throws kIoFailure or kNotFound unless files can be made beside the prefix.
void ProbeSnapshotFolder(const std::string& prefix);

// Writes the model, then the state that names it, each atomically. Completes `state` with the path
// of the model and the checksum of the weights.
SnapshotPaths WriteSnapshot(const SolverParameter& param, const Plan& plan, const Weights& weights,
                            int64_t iteration, SolverState state);

// Reads the model that `state` (read from `state_path`) names into the weights: at its path, or
// beside the state file when it is no longer there. Throws kDataLoss when it is not the model that
// was saved with this state.
void LoadModelOfState(const SolverState& state, const std::string& state_path, const Plan& plan,
                      Weights* weights);

}  // namespace crema
