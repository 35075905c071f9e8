// The files of a snapshot: <prefix>_iter_N.caffemodel and .solverstate, or both with .h5, and
// _ema.caffemodel with averaged weights.
#pragma once

#include <cstdint>
#include <string>

#include "core/log.h"
#include "crema.pb.h"
#include "plan/plan.h"
#include "runtime/weights.h"

namespace crema {

struct SnapshotPaths {
  std::string model;
  std::string state;
  std::string ema;
};

SnapshotPaths PathsOf(const SolverParameter& param, int64_t iteration);
// Returns the files that belong to the state of this name.
SnapshotPaths PathsOfState(const std::string& state_path);
// Returns the path of snapshot_best: <prefix>_best.caffemodel, or with .h5.
std::string BestPath(const SolverParameter& param);

// Returns the folder of the prefix, or the nearest folder above it that exists; "." for the current
// one.
std::string ExistingFolderOf(const std::string& prefix);
// Throws kIoFailure or kNotFound unless files can be created beside the prefix, or in the nearest
// folder above it if MakeSnapshotFolder would make that of the prefix.
void ProbeSnapshotFolder(const std::string& prefix);
// Makes the folder of the prefix. Throws like ProbeSnapshotFolder.
void MakeSnapshotFolder(const std::string& prefix);

// Throws kInvalidArgument if the solver's snapshot_format cannot hold the names of the layers.
void CheckSnapshotNames(const SolverParameter& param, const Plan& plan);

// Writes weights alone, atomically, in the format of the solver's snapshots.
void WriteModel(const SolverParameter& param, const Plan& plan, const Weights& weights,
                const std::string& path);

// Writes the model (and the averaged weights, unless null), then the state that names them, each
// atomically. Completes `state` with the paths and the checksums of the weights. If one cannot be
// written, the earlier ones are removed, unless there is a state of this iteration.
SnapshotPaths WriteSnapshot(const SolverParameter& param, const Plan& plan, const Weights& weights,
                            const Weights* averaged, int64_t iteration, SolverState state);

// Reads the model that `state` (read from `state_path`) names into the weights: from beside the
// state file, or else from its recorded path. Throws kDataLoss if it is not the model that was
// saved with this state.
void LoadModelOfState(const SolverState& state, const std::string& state_path, const Plan& plan,
                      Weights* weights);
// Does the same for the averaged weights. Requires: the state names some.
void LoadAverageOfState(const SolverState& state, const std::string& state_path, const Plan& plan,
                        Weights* averaged);

// Checks the type, the seed and the schedule of a state (read from `path`) of a run with this
// solver and seed; the update rule checks its histories. Logs warnings. Throws kInvalidArgument for
// a state of another type or schedule, and kDataLoss for a damaged one.
void CheckState(const SolverState& state, const std::string& path, const SolverParameter& param,
                uint64_t seed, LogSink* log);

}  // namespace crema
