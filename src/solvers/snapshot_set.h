// The set of snapshots beside a prefix.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/log.h"

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

}  // namespace crema
