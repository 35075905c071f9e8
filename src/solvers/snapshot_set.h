// The snapshots that lie beside a prefix.
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

}  // namespace crema
