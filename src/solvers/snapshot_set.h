// The snapshots that lie beside a prefix, and the room on the disk for those of a run.
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

// The files <prefix>_iter_N.solverstate and .solverstate.h5, oldest iteration first. What cannot be
// listed is empty.
std::vector<SnapshotFile> ListSnapshots(const std::string& prefix);

// Of the snapshots of iterations up to `newest`, keeps the `keep` newest and that of `newest`. Of
// the others, each state goes, with the model and the averaged weights of its name, whole or not.
// Everything else stays: what has other names, later iterations, models without a state. A file
// that cannot be removed is a warning. Whoever is killed meanwhile leaves no state without its
// model, but perhaps a "<state>.removed", which the next removal goes on with.
void RemoveOldSnapshots(const std::string& prefix, int64_t newest, int keep, LogSink& log);
// Only what killed runs left of that.
void FinishRemovals(const std::string& prefix, LogSink& log);

// Removes what runs of exactly this prefix were writing when they were killed:
// "<prefix>_iter_N.<...>.tmp.<host>.<pid>-<random>" and that of the best model; see
// NameOfAbandoned.
// Requires: nothing of this process writes there. Returns how many.
int RemoveTemporaryFiles(const std::string& prefix);

// About what one snapshot takes on the disk: the model, the averaged weights, the state with so
// many histories for each learned blob.
uint64_t SnapshotBytes(const Plan& plan, int histories, bool averaged);

struct SnapshotNeed {
  int64_t count = 0;  // snapshots that this run will keep
  uint64_t once = 0;  // bytes of one snapshot
  uint64_t all = 0;   // of all of them, and the best model
};
// From `iteration` to max_iter. `epoch_iterations` is what an epoch takes; 0: not known.
SnapshotNeed SnapshotNeedOf(const SolverParameter& param, const Plan& plan, int histories,
                            int64_t iteration, double epoch_iterations);

// Bytes that this user may still write beside the prefix; UINT64_MAX where that cannot be told.
uint64_t FreeBytes(const std::string& prefix);

// Throws kIoFailure when not even one snapshot fits; warns when not all of them do.
void CheckSnapshotSpace(const SnapshotNeed& need, uint64_t free, const std::string& prefix,
                        LogSink& log);

}  // namespace crema
