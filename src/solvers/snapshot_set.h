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

// The states <prefix>_iter_N.solverstate and .solverstate.h5, oldest iteration first. What cannot
// be listed is empty.
std::vector<SnapshotFile> ListSnapshots(const std::string& prefix);

// Of the snapshots of iterations up to `newest`, keeps the `keep` newest and that of `newest`.
// Others are removed when they are whole: a state that can be read, beside the model that it names.
// Everything else stays: what has other names, later iterations, damaged or lone files. A file that
// cannot be removed is a warning.
void RemoveOldSnapshots(const std::string& prefix, int64_t newest, int keep, LogSink& log);

}  // namespace crema
