// The set of snapshots beside a prefix, and the room on the disk for those of a run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/log.h"
#include "crema.pb.h"
#include "plan/plan.h"

namespace crema {

struct SnapshotFile {
  int64_t iteration = 0;
  std::string state;  // path of the .solverstate or .solverstate.h5
};

// Returns the files <prefix>_iter_N.solverstate and .solverstate.h5, oldest iteration first. Empty
// if the folder cannot be listed.
std::vector<SnapshotFile> ListSnapshots(const std::string& prefix);

// Among the snapshots of iterations up to `newest`, keeps the `keep` newest and that of `newest`,
// and removes the other states with the model and averaged weights of their names, intact or not.
// Everything else stays: files of other names, later iterations, models without a state. Warns
// about files that cannot be removed. A process killed meanwhile leaves no state without its model,
// but perhaps a "<state>.removed", which the next removal completes.
void RemoveOldSnapshots(const std::string& prefix, int64_t newest, int keep, LogSink& log);
// Only completes the removals of killed runs.
void FinishRemovals(const std::string& prefix, LogSink& log);

// Removes the temporary files of killed runs with exactly this prefix:
// "<prefix>_iter_N.<...>.tmp.<host>.<pid>-<random>" and that of the best model; see
// NameOfAbandoned. Requires: no writer of this process is using that prefix. Returns the number of
// files.
int RemoveTemporaryFiles(const std::string& prefix);

// Returns the approximate size of one snapshot on the disk: the model, the averaged weights, and
// the state with `histories` values for each parameter.
uint64_t SnapshotBytes(const Plan& plan, int histories, bool averaged);

struct SnapshotNeed {
  int64_t count = 0;  // snapshots that this run will keep
  uint64_t once = 0;  // bytes of one snapshot
  uint64_t all = 0;   // of all of them, and the best model
};
// From `iteration` to max_iter. `epoch_iterations` is the length of an epoch; 0: unknown.
SnapshotNeed SnapshotNeedOf(const SolverParameter& param, const Plan& plan, int histories,
                            int64_t iteration, double epoch_iterations);

// Returns the bytes that this user may still write beside the prefix; UINT64_MAX if unknown.
uint64_t FreeBytes(const std::string& prefix);

// Throws kIoFailure if not even one snapshot fits; warns if not all of them do.
void CheckSnapshotSpace(const SnapshotNeed& need, uint64_t free, const std::string& prefix,
                        LogSink& log);

}  // namespace crema
