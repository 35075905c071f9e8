// Whether the disk has room for the snapshots of a run.
#pragma once

#include <cstdint>
#include <string>

#include "core/log.h"
#include "crema.pb.h"
#include "plan/plan.h"

namespace crema {

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
