// Checks that the disk has room for the snapshots of a run.
#pragma once

#include <cstdint>
#include <string>

#include "core/log.h"
#include "crema.pb.h"
#include "plan/plan.h"

namespace crema {

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
